"""Mini-buckets and their weighted passes."""

"""Which variables meet in one table: cluster trees, mini-buckets, junction graphs."""

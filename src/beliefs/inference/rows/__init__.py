"""Many rows of evidence asked of one model: one plan, one batched sweep."""

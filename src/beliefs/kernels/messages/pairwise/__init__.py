"""Messages of pairwise models of one cardinality."""

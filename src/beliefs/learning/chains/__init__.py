"""Linear chains: sparse attributes, the union of all sequences, and exact answers about it."""

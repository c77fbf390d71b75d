"""Elimination orders: heuristics, their search, and the one a question uses."""

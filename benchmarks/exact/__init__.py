"""Exact inference, ours beside pyAgrum and pgmpy."""

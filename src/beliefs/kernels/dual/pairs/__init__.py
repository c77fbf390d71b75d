"""Dual decomposition where every cluster is a pair of variables."""

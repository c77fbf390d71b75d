"""Bounds by dual decomposition."""

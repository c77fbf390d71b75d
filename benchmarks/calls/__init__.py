"""Whole calls of inference beside their sweeps or kernels."""

"""Kernels of optimisers: the small quadratic programs of cutting planes."""

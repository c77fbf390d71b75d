"""Gradients through sweeps of tree-reweighted messages, ours beside torch autograd."""

"""Layers of binary units: probabilities, draws and softplus sums of whole matrices."""

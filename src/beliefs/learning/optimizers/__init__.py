"""Optimisers on flat weights, and the driver around them."""

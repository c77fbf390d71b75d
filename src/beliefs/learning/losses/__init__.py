"""Losses: every way to compare a model with labels, behind one interface, ``value_and_grad(weights, instances)``."""

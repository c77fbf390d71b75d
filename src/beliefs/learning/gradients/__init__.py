"""Gradients through inference: truncated, at convergence, by perturbation, implicit, and through exact inference."""

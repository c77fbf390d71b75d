"""The way back through sweeps: gradients."""

"""Methods on region graphs, beside iterations of belief propagation, plain NumPy and a peer."""

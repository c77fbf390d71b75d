"""Methods on region graphs: generalised belief propagation, join graphs, and solvers that always converge."""

"""Search over joint states: feasible states, local search, values of partial assignments."""

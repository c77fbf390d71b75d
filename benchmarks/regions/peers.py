"""mbi's side, in a process of its own, from the same arrays. Needs numpy, jax and mbi, not beliefs.

Its convex generalised belief propagation has counting numbers of one for all regions and returns marginals after a
number of iterations. They are doubled until the value at these marginals, computed here, moves by less than 1e-6;
the time is that of a compiled call with as many, compiling left out.
"""

from __future__ import annotations

import time
from importlib import metadata
from typing import Any

import numpy as np

from benchmarks.jobs import Answer, Report, load_arrays, serve

MOST, CLOSE = 2000, 1e-6


def convex(request: Answer, report: Report) -> None:
    """Measure the time to the optimum, and its value."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import CliqueVector, Domain, Factor
    from mbi.approximate_oracles import convex_generalized_belief_propagation

    case = load_arrays(request["case"])
    n_vars, n_states = case["unary"].shape
    domain = Domain([f"x{v}" for v in range(n_vars)], [n_states] * n_vars)
    tables = {(f"x{v}",): row for v, row in enumerate(case["unary"])}
    tables |= {(f"x{u}", f"x{v}"): t for (u, v), t in zip(case["edges"].tolist(), case["tables"], strict=True)}
    arrays = {clique: Factor(domain.project(clique), jax.numpy.asarray(t)) for clique, t in tables.items()}
    potentials = CliqueVector(domain, list(tables), arrays)
    state: Any = None
    run = jax.jit(lambda p, s: convex_generalized_belief_propagation(p, state=s, iters=1))
    mu, state = convex_generalized_belief_propagation(potentials, iters=1)
    _, state = run(potentials, state)
    before, n_iters, taken = np.inf, 1, 0.0
    while n_iters < MOST:
        start = time.process_time()
        for _ in range(n_iters):
            mu, state = run(potentials, state)
        jax.block_until_ready(state)
        taken += time.process_time() - start
        now = value(tables, {clique: np.asarray(mu[clique].values) for clique in tables})
        if abs(now - before) < CLOSE:
            break
        before, n_iters = now, 2 * n_iters
    report(version=metadata.version("mbi"), log_z=now, seconds=taken)


def value(tables: dict[Any, Any], marginals: dict[Any, Any]) -> float:
    """Return the mean log potential plus the entropies of all regions."""
    total = 0.0
    for clique, table in tables.items():
        p = marginals[clique]
        total += float((p * table).sum() - (p[p > 0] * np.log(p[p > 0])).sum())
    return total


if __name__ == "__main__":
    serve({"convex": convex})

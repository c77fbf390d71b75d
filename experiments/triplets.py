"""How many triplets of a complete graph are too many (Figures 3.1 and 3.11 of [gelfand2014]).

    python experiments/triplets.py [--quick | --full] [--output FOLDER]

Complete graphs of six binary variables, fields N(0, 0.1^2), couplings N(0, 0.5^2) or N(0, 1); regions are the first L
of the 20 triplets, as loops, in lexicographic order or in one of two random orders that begin with a cycle basis;
answers by the double loop. In an order that is random throughout, ten triplets are rarely independent.
A cycle basis has ten. Ten models a curve, with ``--full`` the dissertation's fifty. Trials are kept in
``experiments/local``, so that a run that was stopped goes on from there, and a full one from a smaller.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from paper import Claim, command_line, legend_below, report, save, tidy
from trials import Kept, mean_and_error

import beliefs as bl

N_VARS, FIELD = 6, 0.1
EDGES = list(combinations(range(N_VARS), 2))
TRIPLETS = list(combinations(range(N_VARS), 3))
ORDERS = {"lexicographic": None, "random basis 1": 1, "random basis 2": 2}
BASIS, ALL = 10, 20

DIFFERENCES = [
    "The dissertation prints no values for these figures, so shapes are compared.",
    "Its random orders and models are not known; ours put ten independent triplets first.",
    "The double loop starts from uniform beliefs and stops at a change of 1e-6.",
]

Errors = dict[str, dict[str, dict[int, list[list[float]]]]]  # coupling, order, L: (log Z, marginals) a model


def model(coupling: float, seed: int) -> bl.FactorGraph:
    rng = np.random.default_rng([seed, round(100 * coupling)])
    h, j = FIELD * rng.normal(size=N_VARS), coupling * rng.normal(size=len(EDGES))
    return bl.FactorGraph.pairwise(
        np.stack([h, -h], axis=1), EDGES, j[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    )


def ordered(order: str) -> list[tuple[int, int, int]]:
    """Return the triplets, in a random order those first that are independent of the ones before them."""
    chosen = ORDERS[order]
    if chosen is None:
        return TRIPLETS
    drawn = [TRIPLETS[k] for k in np.random.default_rng(chosen).permutation(ALL)]
    basis: list[tuple[int, int, int]] = []
    space: list[int] = []  # sums modulo 2 of sets of edges, as bits
    for triplet in drawn:
        left = sum(1 << EDGES.index(edge) for edge in combinations(triplet, 2))
        for known in space:
            left = min(left, left ^ known)
        if left:
            basis.append(triplet)
            space = sorted([*space, left], reverse=True)
    return [*basis, *(triplet for triplet in drawn if triplet not in basis)]


def errors(coupling: float, order: str, n_loops: int, seed: int) -> list[float]:
    """Return the errors of log Z and of marginals, and whether the run converged."""
    graph = model(coupling, seed)
    regions = bl.RegionGraph.loops(graph, ordered(order)[:n_loops])
    exact = bl.infer(graph, "junction_tree")
    found = bl.infer(graph, bl.DoubleLoop(regions=regions), tol=1e-6, max_iters=3000)
    return [bl.metrics.log_z_error(found, exact), bl.metrics.marginal_error(found, exact), float(found.converged)]


def study(kept: Kept, couplings: tuple[float, ...], sizes: list[int], n_models: int) -> Errors:
    found: Errors = {}
    for coupling in couplings:
        for order in ORDERS:
            for n_loops in sizes:
                trials = [
                    kept.of(f"{coupling} {order} {n_loops} {seed}", partial(errors, coupling, order, n_loops, seed))
                    for seed in range(n_models)
                ]
                found.setdefault(str(coupling), {}).setdefault(order, {})[n_loops] = trials
    return found


def means(trials: list[list[float]]) -> tuple[float, float]:
    return float(np.mean([t[0] for t in trials])), float(np.mean([t[1] for t in trials]))


def judged(found: Errors) -> list[Claim]:
    weak = found["0.5"]["lexicographic"]
    at = {n_loops: means(weak[n_loops]) for n_loops in (0, BASIS, ALL)}
    every = [by_size for orders in found.values() for by_size in orders.values()]
    dips = sum(min(by_size, key=lambda n: means(by_size[n])[0]) == BASIS for by_size in every)
    worse = [means(by_size[ALL])[0] > means(by_size[0])[0] for by_size in every]
    marginals = [means(by_size[ALL])[1] > means(by_size[0])[1] for by_size in every]
    return [
        Claim(
            "Errors dip where the triplets are a cycle basis, at ten, deepest in lexicographic order.",
            f"Of {len(every)} curves of log Z, {dips} have their least value at ten. Couplings of 0.5, lexicographic: "
            + "; ".join(f"{n} triplets {z:.3f} / {l1:.3f}" for n, (z, l1) in at.items())
            + " (log Z / marginals).",
            dips >= len(every) - 1,
        ),
        Claim(
            "All twenty triplets are worse than belief propagation (none) in both errors.",
            f"In log Z on {sum(worse)}, in marginals on {sum(marginals)} of {len(every)} curves.",
            all(worse) and all(marginals),
        ),
        Claim(
            "The double loop converges always.",
            f"{sum(t[2] == 1.0 for by_size in every for trials in by_size.values() for t in trials)} of "
            f"{sum(len(trials) for by_size in every for trials in by_size.values())} runs.",
            all(t[2] == 1.0 for by_size in every for trials in by_size.values() for t in trials),
        ),
    ]


def draw(found: Errors) -> Figure:
    figure = Figure(figsize=(9.6, 3.4 * len(found)), layout="constrained")
    axes = np.atleast_2d(figure.subplots(len(found), 2, sharex=True))
    for row, (coupling, orders) in zip(axes, found.items(), strict=True):
        for k, (ax, what) in enumerate(zip(row, ("error of log Z", "error of marginals, L1"), strict=True)):
            for name, by_size in orders.items():
                pairs = [mean_and_error([t[k] for t in trials]) for trials in by_size.values()]
                ax.errorbar(list(by_size), [p[0] for p in pairs], [p[1] for p in pairs], label=name, marker="o", ms=3)
            ax.axvline(BASIS, color="#bccad6", lw=1, zorder=0)
            ax.set(title=f"couplings N(0, {coupling}^2)", ylabel=what, yscale="log")
            tidy(ax)
    for ax in axes[-1]:
        ax.set_xlabel("triplets")
    legend_below(figure, axes[0][0], 3)
    return figure


def main() -> int:
    options = command_line(__doc__, needs_data=False, sizes=True)
    assert options is not None
    sizes = [0, 5, 10, 15, 20] if options.quick else list(range(ALL + 1))
    n_models = 4 if options.quick else 50 if options.full else 10
    couplings = (0.5,) if options.quick else (0.5, 1.0)
    found = study(Kept.of_study("triplets", options), couplings, sizes, n_models)
    claims = judged(found)
    report("Figures 3.1 and 3.11: triplets of K6", claims, [f"{n_models} models a curve, 50 there.", *DIFFERENCES])
    numbers: dict[str, Any] = {
        coupling: {order: {str(n): means(trials) for n, trials in by_size.items()} for order, by_size in orders.items()}
        for coupling, orders in found.items()
    }
    numbers["models"] = n_models
    save(options.output, "triplets", {"triplets": draw(found)}, numbers, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())

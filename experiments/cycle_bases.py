"""Which cycles to choose as regions (Figures 3.13 to 3.17 of [gelfand2014]).

    python experiments/cycle_bases.py [--quick | --full] [--only FIGURE ...] [--output FOLDER]

====  ================================================================================================================
3.13  9x9 grids, fields N(0, 0.1^2): 64 faces, 16 tiled copies of the one basis of a 3x3 grid that is not fundamental,
      belief propagation; against the couplings
3.14  complete graphs of 20, fields N(0, 1), couplings N(0, 1/19): the star, then triangles (1, u, v) swapped for
      (w, u, v) one after the other, fundamental throughout
3.15  partial k-trees (k = 9), 100 variables, fields N(0, 1), couplings N(0, 0.3^2), against connectivity
3.16  the same at a connectivity of 0.7, against the i-bound of join graphs (their count, one more than ours)
3.17  10x10 grids with 5 to 50 more edges, fields N(0, 1), couplings N(0, 0.5^2)
====  ================================================================================================================

Half of the old message is kept. The schedule is ``auto``, which ends with the double loop where messages do not settle,
at most 1,000 steps: it begins after some 160 sweeps, so that a run cut off at 200 shows messages that go round in
circles, and not the regions. Depth first alone for 3.14, which counts sweeps. ``--full`` has the dissertation's numbers
of models (50, 500, 100, 100 and 25 a level) and all levels: hours; ``--only 3.13 3.14`` makes some figures.
Trials are kept in ``experiments/local``, so that a run that was stopped goes on from there, and with the results, so
that a full one goes on from a smaller, elsewhere too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from paper import Claim, command_line, report, save, tidy
from trials import Kept, mean_and_error

import beliefs as bl

DIFFERENCES = [
    "The dissertation prints no values for these figures, so shapes are compared.",
    "Levels of couplings and of connectivity are not printed there; they are ours.",
    "A run that does not converge counts with the beliefs it ended with.",
]
SIDE, TILE = 9, 3
MOST_SWEEPS, DAMPING = 1000, 0.5
EXACT = 1e-9  # an error that is no error
PATTERN = [(0, 1, 2, 5, 8, 7, 4, 3), (0, 1, 2, 5, 4, 7, 6, 3), (0, 1, 4, 5, 8, 7, 6, 3), (1, 2, 5, 8, 7, 6, 3, 4)]
Errors = dict[str, list[float]]  # of a method: errors of log Z and of marginals, sweeps, whether it converged
Found = dict[str, dict[str, list[Errors]]]  # figure, level, model


def compared(graph: bl.FactorGraph, methods: dict[str, Any]) -> Errors:
    """Return what each method does on one model."""
    exact, found = bl.infer(graph, "junction_tree"), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        for name, method in methods.items():
            result = bl.infer(graph, method, tol=1e-6, max_iters=MOST_SWEEPS)
            errors = [bl.metrics.log_z_error(result, exact), bl.metrics.marginal_error(result, exact)]
            found[name] = [*errors, float(result.n_iters), float(result.converged)]
    return found


def gbp(graph: bl.FactorGraph, cycles: Any, schedule: str = "auto") -> bl.GBP:
    return bl.GBP(regions=bl.RegionGraph.loops(graph, cycles), schedule=schedule, damping=DAMPING)


def faces_or_pattern(coupling: float, seed: int) -> Errors:
    """Figure 3.13."""
    graph = bl.datasets.make_grid(SIDE, field=0.1, coupling=coupling, seed=seed)
    corners = [(row, col) for row in range(0, SIDE - 2, 2) for col in range(0, SIDE - 2, 2)]
    tiled = [
        tuple((row + v // TILE) * SIDE + col + v % TILE for v in cycle) for row, col in corners for cycle in PATTERN
    ]
    faces = bl.cycles.faces(graph)
    return compared(graph, {"faces": gbp(graph, faces), "tiled": gbp(graph, tiled), "BP": "bp"})


def swapped(n_swaps: int, seed: int) -> Errors:
    """Figure 3.14."""
    n = 20
    edges = list(combinations(range(n), 2))
    graph = bl.datasets.make_pairwise(n, edges, field=1.0, coupling=1 / np.sqrt(n - 1), seed=seed)
    rng = np.random.default_rng([seed, 14])
    cycles, done = bl.cycles.star(graph, 0), 0
    while done < n_swaps:
        k, w = int(rng.integers(len(cycles))), int(rng.integers(1, n))
        root, u, v = cycles[k]
        new = tuple(sorted((w, u, v)))
        if root != 0 or w in (u, v) or new in cycles:
            continue
        tried = [*cycles[:k], new, *cycles[k + 1 :]]
        if bl.cycles.is_fundamental(graph, tried):
            cycles, done = tried, done + 1
    return compared(graph, {"swapped": gbp(graph, cycles, "depth_first"), "BP": "bp"})


def bases(graph: bl.FactorGraph, ibounds: tuple[int, ...], seed: int) -> Errors:
    """Partially tree-robust and random fundamental bases, join graphs (their i-bounds) and BP on one model."""
    methods = {
        "partially tree-robust": gbp(graph, bl.cycles.partially_tree_robust(graph)),
        "fundamental": gbp(graph, bl.cycles.random_fundamental(graph, seed)),
        **{f"IJGP({i})": f"ijgp(ibound={i - 1}, damping={DAMPING})" for i in ibounds},
        "BP": "bp",
    }
    return compared(graph, methods)


def k_trees(connectivity: float, ibounds: tuple[int, ...], seed: int) -> Errors:
    """Figures 3.15 and 3.16."""
    graph = bl.datasets.make_partial_k_tree(100, 9, connectivity=connectivity, field=1.0, coupling=0.3, seed=seed)
    return bases(graph, ibounds, seed)


def more_edges(extra: int, seed: int) -> Errors:
    """Figure 3.17."""
    graph = bl.datasets.make_grid(10, extra_edges=extra, field=1.0, coupling=0.5, seed=seed)
    return bases(graph, (3,), seed)


def studies(size: str) -> dict[str, tuple[dict[str, Callable[[int], Errors]], int]]:
    """Return what each figure asks at each level, and of how many models, in a quick, an ordinary or a full run."""
    k = ("quick", "ordinary", "full").index(size)
    couplings = ((0.2, 0.6, 1.0), (0.2, 0.4, 0.6, 0.8, 1.0), (0.2, 0.4, 0.6, 0.8, 1.0, 1.4, 2.0))[k]
    swaps = ((0, 10, 30), *((0, 5, 10, 15, 20, 25, 30),) * 2)[k]
    levels = ((0.3, 0.7), (0.3, 0.5, 0.7), (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))[k]
    ibounds = ((2, 3, 5, 7), *(tuple(range(2, 11)),) * 2)[k]
    extras = ((5, 25, 50), (5, 20, 35, 50), tuple(range(5, 55, 5)))[k]
    return {
        "3.13": ({str(c): partial(faces_or_pattern, c) for c in couplings}, (2, 50, 50)[k]),
        "3.14": ({str(s): partial(swapped, s) for s in swaps}, (4, 100, 500)[k]),
        "3.15": ({str(c): partial(k_trees, c, ibounds if c == 0.7 else (3,)) for c in levels}, (1, 16, 100)[k]),
        "3.16": ({"0.7": partial(k_trees, 0.7, ibounds)}, (1, 16, 100)[k]),
        "3.17": ({str(e): partial(more_edges, e) for e in extras}, (1, 25, 25)[k]),
    }


def key(figure: str, level: str, seed: int) -> str:
    """Return the name of a trial; the models of Figure 3.16 are those of 3.15 at the same connectivity."""
    return f"{'3.16' if (figure, level) == ('3.15', '0.7') else figure} {level} {seed}"


def means(trials: list[Errors], name: str) -> tuple[float, float]:
    """Return the mean errors of log Z and of marginals."""
    return float(np.mean([t[name][0] for t in trials])), float(np.mean([t[name][1] for t in trials]))


def shown(trials: list[Errors], names: Iterable[str] = ()) -> str:
    """Return methods, all by default, with their errors."""
    names = list(names) or list(trials[0])
    return ", ".join(f"{name} {means(trials, name)[0]:.3g} / {means(trials, name)[1]:.2g}" for name in names)


def judged(found: Found) -> list[Claim]:
    """Compare shapes, of the figures that were made."""
    judges = {"3.13": of_grids, "3.14": of_swaps, "3.15": of_trees, "3.16": of_ibounds, "3.17": of_more_edges}
    return [judges[name](levels) for name, levels in found.items()]


def of_grids(grids: dict[str, list[Errors]]) -> Claim:
    best = [means(t, "faces")[1] <= min(means(t, "BP")[1], means(t, "tiled")[1]) for t in grids.values()]
    behind = [[level for level, t in grids.items() if means(t, "tiled")[k] > means(t, "BP")[k]] for k in (0, 1)]
    last, strong = list(grids.items())[-1]
    return Claim(
        "3.13: faces are best, and the tiled basis is soon worse than belief propagation.",
        f"Faces are best at {sum(best)} of {len(best)} couplings; the tiled basis is behind belief propagation at "
        f"{len(behind[0])} of them in log Z and at {len(behind[1])} in marginals; at {last}: {shown(strong)}.",
        all(best) and all(last in levels for levels in behind),
    )


def of_swaps(swaps: dict[str, list[Errors]]) -> Claim:
    few, many = list(swaps.values())[0], list(swaps.values())[-1]
    sweeps = [float(np.mean([t["swapped"][2] for t in trials])) for trials in (few, many)]
    errors = [means(trials, "swapped") for trials in (few, many)]
    return Claim(
        "3.14: errors and sweeps grow with swaps.",
        f"{list(swaps)[0]} to {list(swaps)[-1]} swaps: log Z {errors[0][0]:.3g} to {errors[1][0]:.3g}, marginals "
        f"{errors[0][1]:.2g} to {errors[1][1]:.2g}, sweeps {sweeps[0]:.0f} to {sweeps[1]:.0f}.",
        errors[1][0] > errors[0][0] and errors[1][1] > errors[0][1] and sweeps[1] > sweeps[0],
    )


def of_trees(trees: dict[str, list[Errors]]) -> Claim:
    names = next(iter(trees.values()))[0]
    ahead = [
        means(t, "partially tree-robust")[1] < min(means(t, "IJGP(3)")[1], means(t, "BP")[1]) for t in trees.values()
    ]
    return Claim(
        "3.15: partially tree-robust bases are ahead of IJGP(3) and of belief propagation.",
        "; ".join(f"{level}: {shown(trials, names)}" for level, trials in trees.items()) + ".",
        all(ahead),
    )


def of_ibounds(bounds: dict[str, list[Errors]]) -> Claim:
    trials = bounds["0.7"]
    return Claim(
        "3.16: they are about as good as IJGP(7), random fundamental ones as IJGP(6).",
        f"{shown(trials)}.",
        means(trials, "partially tree-robust")[1] < means(trials, "IJGP(5)")[1],
    )


def of_more_edges(extra: dict[str, list[Errors]]) -> Claim:
    beat = [
        max(means(t, name)[1] for name in ("partially tree-robust", "fundamental")) < means(t, "IJGP(3)")[1]
        for t in extra.values()
    ]
    return Claim(
        "3.17: both kinds of bases beat IJGP(3).",
        "; ".join(f"{level} edges: {shown(trials)}" for level, trials in extra.items()) + ".",
        all(beat),
    )


def draw(found: Found) -> Figure:
    """Draw errors of log Z and of marginals, a row a figure."""
    figure = Figure(figsize=(9.6, 3.2 * len(found)), layout="constrained")
    axes = np.atleast_2d(figure.subplots(len(found), 2))
    labels = {"3.13": "couplings", "3.14": "swaps", "3.15": "connectivity", "3.16": "method", "3.17": "more edges"}
    for row, (name, levels) in zip(axes, found.items(), strict=True):
        methods = list(next(iter(levels.values()))[0])
        for k, (ax, what) in enumerate(zip(row, ("error of log Z", "error of marginals, L1"), strict=True)):
            ax.set_yscale("log")
            if len(levels) == 1:
                trials = next(iter(levels.values()))
                pairs = [mean_and_error([t[m][k] for t in trials]) for m in methods]
                ax.errorbar(range(len(methods)), [p[0] for p in pairs], [p[1] for p in pairs], fmt="o", ms=4)
                names = [m if p[0] > EXACT else f"{m}, exact" for m, p in zip(methods, pairs, strict=True)]
                ax.set_xticks(range(len(methods)), names, rotation=30, ha="right")
                ax.set_ylim(bottom=0.5 * min(p[0] for p in pairs if p[0] > EXACT))
            for method in methods if len(levels) > 1 else []:
                pairs = [mean_and_error([t[method][k] for t in trials]) for trials in levels.values()]
                at = [float(level) for level in levels]
                ax.errorbar(at, [p[0] for p in pairs], [p[1] for p in pairs], label=method, marker="o", ms=3)
            ax.set(title=f"Figure {name}", xlabel=labels[name], ylabel=what)
            tidy(ax)
            if len(levels) > 1 and k == 0:
                ax.legend(fontsize=7, frameon=False, loc="lower right" if name == "3.17" else "upper left")
    return figure


def main() -> int:
    options = command_line(__doc__, needs_data=False, sizes=True)
    assert options is not None
    setting = {"most sweeps": MOST_SWEEPS, "damping": DAMPING}
    kept = Kept.of_study("cycle_bases", options, setting)
    asked = studies("quick" if options.quick else "full" if options.full else "ordinary")
    found: Found = {}
    for name, (levels, n_models) in asked.items():
        if options.only and name not in options.only:
            continue
        found[name] = {
            level: [kept.of(key(name, level, seed), partial(ask, seed)) for seed in range(n_models)]
            for level, ask in levels.items()
        }
        print(f"figure {name}: done", file=sys.stderr, flush=True)
    claims = judged(found)
    models = {name: n_models for name, (_, n_models) in asked.items() if name in found}
    counted = f"Models a level: {', '.join(f'{n} in {name}' for name, n in models.items())}."
    report("Figures 3.13 to 3.17: cycle bases", claims, [counted, *DIFFERENCES])
    numbers: dict[str, Any] = {
        name: {
            level: {
                m: [*means(trials, m), *(float(np.mean([t[m][k] for t in trials])) for k in (2, 3))] for m in trials[0]
            }
            for level, trials in levels.items()
        }
        for name, levels in found.items()
    }
    numbers |= {"models": models, "setting": setting, "trials": kept.found}
    save(options.output, "cycle_bases", {"cycle_bases": draw(found)}, numbers, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())

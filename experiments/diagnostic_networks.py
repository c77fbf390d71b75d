"""Marginal MAP on diagnostic Bayesian networks: who tightens the bound, and how fast (Figures 3.3 and 3.4).

    python experiments/diagnostic_networks.py [--data FOLDER] [--quick] [--output FOLDER]

Half of the variables, drawn at random, are maximised; all methods are held to i-bound 1. First figure: bounds against
iterations and seconds, and the value of the latest decoding. Second: the best bound within 20 iterations as the share
of max nodes grows from 0 % (log Z) to 100 % (MAP).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from curves import CONVENTIONS, compare, maximising, roster
from diagnostic_claims import BUDGET, Shares, Study, of_convergence, of_decodings, of_shares
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from paper import command_line, draw_bounds, draw_decodings, legend_below, report, room_for, save, style, tidy
from verdicts import best_step

import beliefs as bl
from beliefs.plot.canvas import INK

STEPS = (0.01, 0.04, 0.1, 0.5)
NETWORKS = {
    "munin1": "MUNIN1\n186 variables, up to 21 states",
    "cpcs360b": "CPCS360b\n310 variables (and 50 observed), 2 states",
    "andes": "ANDES\n223 variables, 2 states",
}
DIFFERENCES = [
    "The paper's networks, BN-1 (203 variables, up to 7 states) and BN-2 (359 variables, up to 6 states) of the UAI "
    "2008 evaluation, are not in the data folder. The nearest diagnostic networks there are MUNIN1 (nerves and "
    "muscles), CPCS360b (internal medicine; BN_81 of UAI 2006) and ANDES (what a student knows).",
    "Max nodes are drawn with our seed; larger shares contain the smaller.",
    *CONVENTIONS,
    "Seconds are of one thread of our machine; plans are made before, and decodings are scored outside the clock.",
]


def networks(data: Path) -> dict[str, bl.FactorGraph]:
    read = {name: bl.read(data / "bn" / f"{name}.bif.gz").to_factor_graph() for name in ("munin1", "andes")}
    cpcs = bl.datasets.load_uai("uai2006-mpe/BN/BN_81", home=data).conditioned()
    return {"munin1": read["munin1"], "cpcs360b": cpcs, "andes": read["andes"]}


def by_share(graph: bl.FactorGraph, shares: list[float]) -> dict[str, list[float]]:
    """Return each method's best bound within the budget, for every share of max nodes."""
    found: dict[str, list[float]] = {}
    for share in shares:
        for label, curve in compare(maximising(graph, share, seed=0), roster(STEPS), BUDGET).items():
            found.setdefault(label, []).append(curve.best_after(BUDGET))
    return found


# -- figures ----------------------------------------------------------------------------------------------------------
def draw_half(half: Study) -> Figure:
    figure = Figure(figsize=(12.5, 10.5), layout="constrained")
    axes = figure.subplots(3, len(half), squeeze=False)
    for column, (name, curves) in enumerate(half.items()):
        per_iteration, per_second, decoded = axes[:, column]
        draw_bounds(per_iteration, curves)
        draw_bounds(per_second, curves, "seconds")
        draw_decodings(decoded, curves, ["WMB (ours)", best_step(curves, BUDGET), "GDD"])
        last = len(curves["GDD"].bound) - 1
        longest = max(curve.seconds[-1] for label, curve in curves.items() if label.startswith("WMB"))
        per_iteration.set(title=NETWORKS[name], xlabel="iteration", xlim=(0, last), ylim=room_for(curves))
        per_second.set(xlabel="seconds", xlim=(0, longest), ylim=room_for(curves))
        decoded.set(xlabel="iteration", xlim=(0, last))
    for ax, label in zip(axes[:, 0], ("upper bound, nats", "upper bound, nats", "Q of the latest decoding, nats")):
        ax.set_ylabel(label)
    for ax in axes.flat:
        tidy(ax)
    legend_below(figure, axes[0, 0], 6)
    return figure


def draw_shares(shares: list[float], bounds: Shares) -> Figure:
    figure = Figure(figsize=(12.5, 4.6), layout="constrained")
    axes = figure.subplots(1, len(bounds), sharey=True, squeeze=False)[0]
    for ax, (name, found) in zip(axes, bounds.items()):
        _share_panel(ax, shares, found)
        ax.set(title=NETWORKS[name], xlabel="share of max nodes, %", xlim=(0, 100), ylim=(-0.03, 70))
    axes[0].set_ylabel(f"best bound in {BUDGET} iterations,\nnats above the tightest of all")
    legend_below(figure, axes[0], 6)
    return figure


def _share_panel(ax: Axes, shares: list[float], found: dict[str, list[float]]) -> None:
    tightest = np.min(list(found.values()), axis=0)
    for label, values in found.items():
        ax.plot([100 * s for s in shares], np.array(values) - tightest, **style(label, list(found)), label=label)
    ax.axhline(0, color=INK, lw=0.8)
    ax.set_yscale("symlog", linthresh=0.1, linscale=0.4)
    ax.set_yticks([0, 0.1, 1, 10], ["0", "0.1", "1", "10"])
    tidy(ax)


def main() -> int:
    options = command_line(__doc__, needs_data=True)
    if options is None:
        return 0
    iterations, shares = (BUDGET, [0.0, 0.5, 1.0]) if options.quick else (60, [k / 10 for k in range(11)])
    graphs = networks(options.data)
    if options.quick:
        graphs = {"andes": graphs["andes"]}
    half = {name: compare(maximising(g, 0.5, seed=0), roster(STEPS), iterations) for name, g in graphs.items()}
    bounds = {name: by_share(graph, shares) for name, graph in graphs.items()}
    claims = [*of_convergence(half), *of_decodings(half), *of_shares(shares, bounds)]
    report("Figures 3.3 and 3.4: diagnostic Bayesian networks, i-bound 1", claims, DIFFERENCES)
    figures = {"diagnostic_networks": draw_half(half), "diagnostic_shares": draw_shares(shares, bounds)}
    save(options.output, "diagnostic_networks", figures, {"half": half, "shares": shares, "best": bounds}, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())

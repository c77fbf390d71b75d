"""How large a step should a gradient by perturbation take? (Figure 3 of the marginal-based learning paper.)

    python experiments/perturbation_step.py [--quick] [--output FOLDER]

Binary grids of 10 by 10, theta(x_i) ~ N(0, 1), theta(x_i, x_j) ~ N(0, s^2); the univariate logistic loss of a random
labelling. The gradient is the change of the marginals of TRW (or mean field) along dQ/dmu, by one-, two- or four-sided
differences with r = m eps^(1/3) (1 + |theta|) / |q|; drawn is its relative error against the multiplier m.
"""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from paper import Claim, command_line, legend_below, report, save, tidy

import beliefs as bl
from beliefs.learning.gradients.base import Beliefs
from beliefs.learning.gradients.implicit import Implicit
from beliefs.learning.gradients.mean_field import converge_mean_field
from beliefs.learning.gradients.perturbation import Perturbation

METHODS = {"TRW": bl.TRW(rho="grid"), "mean field": bl.MeanField()}
STRENGTHS = (0.5, 1.0, 2.0)
COLOURS = {1: "#e2783a", 2: "#174a6e", 4: "#2e8b57"}
TOL = 1e-15

# relative errors of one, two and four sides for TRW at s = 0.5, computed independently of this library
INDEPENDENT = {
    1e-3: (6e-7, 3e-7, 4e-7), 1e-2: (7e-8, 3e-8, 4e-8), 1e-1: (3e-7, 3e-9, 3e-9), 1.0: (3e-6, 3e-10, 3e-10),
    1e1: (3e-5, 2e-9, 4e-11), 1e2: (3e-4, 2e-7, 3e-12), 1e3: (3e-3, 2e-5, 1e-9),
}  # fmt: skip

DIFFERENCES = [
    "The true gradient is not by coordinate-wise differences but by a linear system (TRW) and by back-propagation at "
    "convergence (mean field), which are exact to rounding: differences could not show errors below 1e-10.",
    "The paper's s, seeds and labelling are not known: s is 0.5, 1 and 2, and curves are medians over random models. "
    "TRW has edge weights 1/2.",
    "Inference stops when no marginal changes by 1e-15, as in the paper, or after 2000 sweeps.",
]

Errors = dict[str, dict[str, dict[str, list[float]]]]  # method, strength, sides: the median error of each multiplier


def model(side: int, strength: float, seed: int) -> tuple[bl.FactorGraph, np.ndarray]:
    """Return a random grid, and the state in ``mu_var`` of each variable's random label."""
    rng = np.random.default_rng(seed)
    place = np.arange(side * side).reshape(side, side)
    across, down = (
        np.stack([a.ravel(), b.ravel()], 1) for a, b in ((place[:, :-1], place[:, 1:]), (place[:-1], place[1:]))
    )
    edges = np.concatenate([across, down])
    nodes, pairs = rng.normal(size=(side * side, 2)), strength * rng.normal(size=(len(edges), 2, 2))
    return bl.FactorGraph.pairwise(nodes, edges, pairs), 2 * place.ravel() + rng.integers(0, 2, side * side)


def logistic(beliefs: Beliefs, labels: np.ndarray) -> np.ndarray:
    """Return the gradient of -sum log mu(label) in the marginals."""
    bar = np.zeros(beliefs.mu_var.size)
    bar[labels] = -1 / beliefs.mu_var[labels]
    return bar


def truth(name: str, graph: bl.FactorGraph, labels: np.ndarray) -> np.ndarray:
    if name == "TRW":
        beliefs = Implicit(method=METHODS[name], tol=TOL, max_iters=2000).run(graph)
    else:
        beliefs = converge_mean_field(bl.MeanField(), graph, TOL, 1e-17, 5000)
    return beliefs.pullback(bar_var=logistic(beliefs, labels))


def errors(name: str, side: int, strength: float, seed: int, multipliers: np.ndarray) -> dict[int, list[float]]:
    """Return the relative errors of one random model, for each number of sides and multiplier."""
    graph, labels = model(side, strength, seed)
    expected = truth(name, graph, labels)
    found: dict[int, list[float]] = {}
    start = Perturbation(method=METHODS[name], tol=TOL, max_iters=2000).run(graph).kept
    for sides in COLOURS:
        for m in multipliers:
            way = Perturbation(
                method=METHODS[name], sides=sides, multiplier=float(m), exponent=1 / 3, tol=TOL, max_iters=2000
            )
            beliefs = way.run(graph, start)
            grad = beliefs.pullback(bar_var=logistic(beliefs, labels))
            error = np.linalg.norm(grad - expected) / np.linalg.norm(expected)
            found.setdefault(sides, []).append(float(error))
    return found


def study(side: int, seeds: range, multipliers: np.ndarray) -> Errors:
    """Return medians over random models."""
    result: Errors = {}
    for name in METHODS:
        result[name] = {}
        for strength in STRENGTHS:
            runs = [errors(name, side, strength, seed, multipliers) for seed in seeds]
            result[name][str(strength)] = {
                str(sides): np.median([run[sides] for run in runs], axis=0).tolist() for sides in COLOURS
            }
    return result


# -- claims -----------------------------------------------------------------------------------------------------------
def slope(multipliers: np.ndarray, values: list[float], *, right: bool) -> float:
    """Return the log-log slope beyond the minimum, where the error is neither near it nor near one."""
    logs, lowest = np.log10(values), int(np.argmin(values))
    beside = np.arange(len(values)) > lowest if right else np.arange(len(values)) < lowest
    used = beside & (logs > logs[lowest] + 0.7) & (logs < -1.5)
    return float(np.polyfit(np.log10(multipliers[used]), logs[used], 1)[0]) if used.sum() > 1 else float("nan")


def judged(found: Errors, multipliers: np.ndarray) -> list[Claim]:
    curves = [of_sides for of_strength in found.values() for of_sides in of_strength.values()]
    right = {s: np.nanmedian([slope(multipliers, c[str(s)], right=True) for c in curves]) for s in COLOURS}
    left = {s: np.nanmedian([slope(multipliers, c[str(s)], right=False) for c in curves]) for s in COLOURS}
    best = {s: [multipliers[int(np.argmin(c[str(s)]))] for c in curves] for s in COLOURS}
    least = {s: [min(c[str(s)]) for c in curves] for s in COLOURS}
    ordered = all(a > b > c for a, b, c in zip(least[1], least[2], least[4]))
    one = int(np.argmin(np.abs(np.log(multipliers))))
    at_one = {name: [c["2"][one] for c in of.values()] for name, of in found.items()}
    small = int(np.argmin(np.abs(np.log(multipliers / 1e-3))))
    weak, strong = (str(s) for s in (STRENGTHS[0], STRENGTHS[-1]))
    floor = {name: of[strong]["2"][small] / of[weak]["2"][small] for name, of in found.items()}
    near = [
        abs(np.log10(found["TRW"]["0.5"][str(sides)][k] / value))
        for m, row in INDEPENDENT.items()
        for sides, value in zip(COLOURS, row)
        if (k := int(np.argmin(np.abs(np.log(multipliers / m))))) >= 0 and np.isclose(multipliers[k], m)
    ]
    return [
        Claim(
            "Errors are V-shaped in the step: rounding on the left, truncation with slopes 1, 2 and 4 on the right.",
            f"Slopes on the right {right[1]:.2f}, {right[2]:.2f} and {right[4]:.2f}; on the left {left[1]:.2f}, "
            f"{left[2]:.2f} and {left[4]:.2f} (medians over all panels).",
            all(abs(right[s] - s) < 0.35 * s for s in COLOURS),
        ),
        Claim(
            "More sides reach a lower error, at a larger step.",
            "Best multipliers of one, two and four sides: "
            + ", ".join(f"{min(b):.2g} to {max(b):.2g}" for b in best.values())
            + "; least errors: "
            + ", ".join(f"{min(v):.0e} to {max(v):.0e}" for v in least.values())
            + ".",
            ordered and all(a <= b <= c for a, b, c in zip(*best.values())),
        ),
        Claim(
            "Two sides with multiplier 1 are a good choice.",
            "Relative errors there, s = 0.5, 1, 2: "
            + "; ".join(f"{name} " + ", ".join(f"{e:.0e}" for e in values) for name, values in at_one.items())
            + ". The worst is where a label is nearly impossible: q is then so large that the rule's step is "
            "too small.",
            max(max(values) for values in at_one.values()) < 1e-6,
        ),
        Claim(
            "(Not in the paper.) An independent implementation has the same errors for TRW at s = 0.5; stronger "
            "coupling raises the rounding floor, about a hundredfold at s = 2.",
            f"Median factor between the two {10 ** np.median(near):.1f}, largest {10 ** np.max(near):.0f}. "
            "Rounding at s = 2 against s = 0.5: "
            + ", ".join(f"{name} {ratio:.0f} times" for name, ratio in floor.items())
            + ".",
            float(np.median(near)) < 0.7,
        ),
    ]


# -- the figure -------------------------------------------------------------------------------------------------------
def panel(ax: Axes, name: str, strength: str, found: dict[str, list[float]], multipliers: np.ndarray) -> None:
    for sides, colour in COLOURS.items():
        label = f"{sides}-sided"
        ax.loglog(multipliers, found[str(sides)], color=colour, lw=1.8, label=label)
        if name == "TRW" and strength == "0.5":
            points = [row[list(COLOURS).index(sides)] for row in INDEPENDENT.values()]
            ax.loglog(list(INDEPENDENT), points, "o", ms=4.5, mfc="none", color=colour, label=f"{label}, independent")
    ax.axvline(1, color="#999999", lw=0.8, ls=(0, (3, 2)), zorder=0)
    ax.set(title=f"{name}, s = {float(strength):g}", ylim=(1e-13, 10), xlim=(multipliers[0], multipliers[-1]))
    tidy(ax)


def draw(found: Errors, multipliers: np.ndarray) -> Figure:
    figure = Figure(figsize=(9.6, 6.0), layout="constrained")
    axes = figure.subplots(2, len(STRENGTHS), sharex=True, sharey=True)
    for row, (name, of_strength) in zip(axes, found.items()):
        for ax, (strength, curves) in zip(row, of_strength.items()):
            panel(ax, name, strength, curves, multipliers)
        row[0].set_ylabel("relative error of the gradient")
    for ax in axes[-1]:
        ax.set_xlabel("multiplier m of the step")
    legend_below(figure, axes[0, 0], 3)
    return figure


def main() -> int:
    options = command_line(__doc__, needs_data=False)
    assert options is not None
    side, seeds, per_decade = (4, range(1), 1) if options.quick else (10, range(5), 2)
    smallest = -5 if options.quick else -4  # rounding is smaller on a small grid
    multipliers = 10.0 ** (np.arange(smallest * per_decade, 5 * per_decade + 1) / per_decade)
    found = study(side, seeds, multipliers)
    claims = judged(found, multipliers)
    report("Figure 3: the step of perturbation", claims, DIFFERENCES)
    numbers = {
        "multipliers": [float(f"{m:.6g}") for m in multipliers],
        "relative errors": {
            name: {s: {k: [float(f"{e:.3g}") for e in v] for k, v in c.items()} for s, c in of.items()}
            for name, of in found.items()
        },
    }
    save(options.output, "perturbation_step", {"perturbation_step": draw(found, multipliers)}, numbers, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())

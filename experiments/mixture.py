"""A mixture of three Gaussians, and EM's falling curve. (Pictures of the lecture on marginal-based learning.)

    python experiments/mixture.py [--quick] [--output FOLDER]

p(x) = sum_z p(z) p(x | z) with z never seen: a network of one hidden variable with one Gaussian leaf. Left: the learned
p(z) p(x | z) and p(x) over the points they were learned from, and the truth. Right: the negative log-likelihood of a
point after each iteration of EM, from random starts, and from three equal components.
"""

from __future__ import annotations

import sys
from itertools import permutations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from paper import Claim, command_line, report, save, tidy

import beliefs as bl
from beliefs.learning.networks.gaussian import log_densities

WEIGHTS, MEANS, DEVIATIONS = np.array([0.5, 0.3, 0.2]), np.array([-2.0, 1.0, 4.0]), np.array([1.0, 0.5, 1.2])
COLOURS = ("#174a6e", "#2e8b57", "#c4541c")
ITERATIONS, STARTS = 60, 10

DIFFERENCES = [
    "The lecture draws three components and a falling curve without numbers: weights, means and points are ours.",
    "The lecture's curve is one run; here are several, since where EM ends depends on where it starts.",
]


def drawn(n: int, seed: int = 0) -> np.ndarray:
    """Draw points of the mixture."""
    rng = np.random.default_rng(seed)
    z = rng.choice(3, n, p=WEIGHTS)
    return rng.normal(MEANS[z], DEVIATIONS[z])[:, None]


def learner(seed: int, start: str = "random", iterations: int = ITERATIONS, **given: object) -> bl.BNLearner:
    """Return an unfitted mixture."""
    leaf = bl.GaussianLeaf("x0", "z", **given)
    z = bl.BayesianNetwork.from_cpts([bl.Variable("z", 3)], {"z": ([], np.full(3, 1 / 3))})
    return bl.BNLearner(
        z, estimate="mle", hidden=["z"], leaves={"x": leaf}, start=start, seed=seed, max_iters=iterations, tol=0.0
    )


def density(weights: np.ndarray, means: np.ndarray, deviations: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return p(z) p(x | z), ``(points, 3)``."""
    logs = log_densities(at[:, None], means[:, None], (deviations**2)[:, None, None], False)
    return weights * np.exp(logs)


def learned(fitted: bl.BNLearner) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights, means and deviations, the components in the order of the nearest true ones."""
    leaf = fitted.leaves_["x"]
    means = leaf.means[:, 0]
    order = min(permutations(range(3)), key=lambda p: float(np.abs(means[list(p)] - MEANS).sum()))
    return fitted.model_.cpt("z")[list(order)], means[list(order)], np.sqrt(leaf.covariances[list(order), 0, 0])


def judged(x: np.ndarray, runs: list[bl.BNLearner], equal: bl.BNLearner, best: bl.BNLearner) -> list[Claim]:
    rises = max(float(np.diff(run.result_.trace.loss).max()) for run in runs)
    ends = np.array([run.result_.trace.loss[-1] for run in runs])
    truth = -float(np.log(density(WEIGHTS, MEANS, DEVIATIONS, x[:, 0]).sum(axis=1)).mean())
    one = 0.5 * np.log(2 * np.pi * np.e * x.var())
    found = learned(best)
    errors = [float(np.abs(a - b).max()) for a, b in zip(found, (WEIGHTS, MEANS, DEVIATIONS))]
    return [
        Claim(
            "The negative log-likelihood falls in every iteration of EM.",
            f"Of {len(runs)} runs of {ITERATIONS} iterations none rises; the largest change upwards is {rises:.1e}.",
            rises <= 1e-12,
        ),
        Claim(
            "EM finds a local optimum.",
            f"After {ITERATIONS} iterations runs end between {ends.min():.4f} and {ends.max():.4f} nats a point; three "
            f"equal components stay where they are, at {equal.result_.trace.loss[-1]:.4f}, one Gaussian's "
            f"{one:.4f}.",
            bool(abs(equal.result_.trace.loss[-1] - one) < 1e-9 and ends.max() <= one + 1e-9),
        ),
        Claim(
            "The mixture is learned back.",
            f"Largest error of weights {errors[0]:.3f}, means {errors[1]:.3f}, deviations {errors[2]:.3f}; "
            f"{-best.result_.log_likelihood:.4f} nats a point against {truth:.4f} of the truth.",
            errors[0] < 0.05 and errors[1] < 0.3 and -best.result_.log_likelihood <= truth,
        ),
    ]


def draw_densities(ax: Axes, x: np.ndarray, fitted: bl.BNLearner) -> None:
    at = np.linspace(x.min() - 0.5, x.max() + 0.5, 400)
    ax.hist(x[:, 0], bins=60, density=True, color="#dddddd", zorder=0)
    parts = density(*learned(fitted), at)
    for k, colour in enumerate(COLOURS):
        ax.plot(at, parts[:, k], color=colour, lw=1.6, label=f"p(z={k}) p(x | z={k})")
    ax.plot(at, parts.sum(axis=1), color="black", lw=1.8, label="p(x)")
    truth = density(WEIGHTS, MEANS, DEVIATIONS, at).sum(axis=1)
    ax.plot(at, truth, color="black", lw=1.0, ls=(0, (3, 2)), label="p(x), the truth")
    ax.set(xlabel="x", ylabel="density", title="A mixture of three Gaussians")
    ax.legend(frameon=False, fontsize=8)
    tidy(ax)


def draw_curves(ax: Axes, runs: list[bl.BNLearner], equal: bl.BNLearner) -> None:
    for k, run in enumerate(runs):
        ax.plot(run.result_.trace.loss, color="#174a6e", lw=1.0, alpha=0.7, label=None if k else "random starts")
    stays = float(equal.result_.trace.loss[-1])  # the run ends at once
    ax.plot([0, ITERATIONS], [stays, stays], color="#c4541c", lw=1.6, label="three equal components")
    ax.set(xlabel="iteration of EM", ylabel="negative log-likelihood of a point", title="EM's falling curve")
    ax.legend(frameon=False, fontsize=8)
    tidy(ax)


def main() -> int:
    options = command_line(__doc__, needs_data=False)
    assert options is not None
    x = drawn(600 if options.quick else 3000)
    runs = [learner(seed).fit(x) for seed in range(3 if options.quick else STARTS)]
    mean, spread = np.full((3, 1), x.mean()), np.full((3, 1, 1), x.var())
    equal = learner(0, "model", means=mean, covariances=spread).fit(x)
    first = min(runs, key=lambda run: float(run.result_.trace.loss[-1]))
    best = learner(int(first.seed or 0), iterations=200 if options.quick else 600).fit(x)
    claims = judged(x, runs, equal, best)
    report("The lecture's mixture and EM", claims, DIFFERENCES)
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_densities(left, x, best)
    draw_curves(right, runs, equal)
    numbers = {
        "learned": {
            name: [float(f"{v:.6g}") for v in values]
            for name, values in zip(("weights", "means", "deviations"), learned(best))
        },
        "negative log-likelihoods": [[float(f"{v:.8g}") for v in run.result_.trace.loss] for run in runs],
    }
    save(options.output, "mixture", {"mixture": figure}, numbers, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())

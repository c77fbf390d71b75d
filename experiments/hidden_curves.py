"""Convergence and likelihood of learners with hidden variables (Figures 4.2 and 4.4 of [ping2016]).

    python experiments/hidden_curves.py [--quick] [--output FOLDER]

Figure 4.2: training error by iteration of sub-gradient descent. Figure 4.4: log-likelihood of test outputs, likewise.
The models are those of hidden_chain.py; the figures print no values, so that shapes are what can be compared.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
from hidden_learners import accuracy, loss_of, sgd_text
from hidden_models import Shape, chain, simulated
from matplotlib.figure import Figure
from paper import Claim, command_line, legend_below, report, save, tidy
from trials import Kept, mean_and_error, paired, shown

from beliefs.learning import fit, losses
from beliefs.learning.result import FitProgress

TRIALS = 5
ITERATIONS = 300
RUNS = {
    "MSSVM": ("MSSVM", 0.02),
    "LSSVM": ("LSSVM", 0.001),
    "HCRF": ("HCRF", 0.02),
    "LSSVM, rate 0.02": ("LSSVM", 0.02),
}
COLOURS = {"MSSVM": "#174a6e", "LSSVM": "#c4541c", "HCRF": "#2e8b57", "LSSVM, rate 0.02": "#e3b08f"}

DIFFERENCES = [
    "Models, readings and starts as in hidden_chain.py; exact inference throughout.",
    f"Figures 4.2 and 4.4 show means of {TRIALS} trials.",
    "Log-likelihood is that of the outputs given the inputs, hidden variables summed out, whatever the learner.",
]


def descent(shape: Shape, seed: int, run: str, iterations: int, sizes: tuple[int, int]) -> dict[str, list[float]]:
    """Return training error and test log-likelihood (per example) after each iteration of sub-gradient descent."""
    name, rate = RUNS[run]
    trial = simulated(shape, seed, *sizes)
    of_test = losses.Likelihood(template=shape.template, l2=0.0)
    errors: list[float] = []
    likelihood: list[float] = []

    def look(now: FitProgress) -> None:
        errors.append(1 - accuracy(name, trial, now.weights, trial.examples))
        per_label = of_test.value_and_grad(now.weights, [trial.test])[0]
        likelihood.append(-per_label * trial.test.n_labelled / sizes[1])

    fit(loss_of(name, trial), trial.train, shape.start(seed), optimizer=sgd_text(trial, rate), max_iters=iterations,
        callback=look)  # fmt: skip
    print(f"  SGD, trial {seed}: {run} {errors[-1]:.3f} {likelihood[-1]:.2f}", flush=True)
    return {"error": errors, "likelihood": likelihood}


def study(quick: bool, kept: Kept) -> dict[str, dict[str, np.ndarray]]:
    """Return curves (trial, iteration) by run."""
    shape, iterations, sizes = (chain(8), 6, (5, 20)) if quick else (chain(40), ITERATIONS, (20, 100))
    curves = {}
    for run in RUNS:
        rows = [kept.of(f"sgd/{seed}/{run}", partial(descent, shape, seed, run, iterations, sizes))
                for seed in range(1 if quick else TRIALS)]  # fmt: skip
        curves[run] = {key: np.array([row[key] for row in rows]) for key in ("error", "likelihood")}
    return curves


def roughness(curve: np.ndarray) -> float:
    """Return the mean change of the error between iterations, in the later half, per cent."""
    later = curve[:, curve.shape[1] // 2 :]
    return 100 * float(np.abs(np.diff(later, axis=1)).mean())


def settled(curve: np.ndarray) -> float:
    """Return after how many iterations the error is within a point of its last ten's mean, in the mean of trials."""
    ends = curve[:, -10:].mean(axis=1, keepdims=True)
    return float((np.argmax(curve <= ends + 0.01, axis=1) + 1).mean())


def judged(curves: dict[str, dict[str, np.ndarray]]) -> list[Claim]:
    rough = {run: roughness(found["error"]) for run, found in curves.items()}
    soon = {run: settled(found["error"]) for run, found in curves.items()}
    at_end = {run: found["likelihood"][:, -1] for run, found in curves.items()}
    best = min(paired(at_end["HCRF"], at_end[run])[0] for run in ("MSSVM", "LSSVM"))
    return [
        Claim("Figure 4.2: MSSVM converges within 50 iterations, LSSVM (rate 0.001) after 250; HCRF soonest.",
              "Iterations to within a point of the last error: "
              + ", ".join(f"{run} {n:.0f}" for run, n in soon.items()) + ".",
              soon["MSSVM"] <= 50 < soon["LSSVM"]),
        Claim("Figure 4.2: LSSVM oscillates at larger rates, MSSVM little, HCRF is the smoothest.",
              "Mean change of the error between late iterations, points: "
              + ", ".join(f"{run} {value:.2f}" for run, value in rough.items()) + ".",
              rough["HCRF"] <= rough["MSSVM"] < rough["LSSVM, rate 0.02"]),
        Claim("Figure 4.4: HCRF has the highest test likelihood.",
              "At the last iteration, per example: "
              + ", ".join(f"{run} {shown(mean_and_error(v), 2)}" for run, v in at_end.items()) + ".", best > 0),
    ]  # fmt: skip


def draw(means: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Draw curves, means over trials, by run."""
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for run, found in means.items():
        wide = {"lw": 1.0, "zorder": 1} if "," in run else {"lw": 1.5, "zorder": 3}
        left.plot(100 * found["error"], color=COLOURS[run], label=run, **wide)
        right.plot(found["likelihood"], color=COLOURS[run], **wide)
    left.set(ylabel="training error, %", title="Figure 4.2")
    right.set(ylabel="test log-likelihood an example", title="Figure 4.4")
    last = max(found["likelihood"].max() for found in means.values())
    right.set_ylim(max(right.get_ylim()[0], 2.5 * last), None)
    for ax in (left, right):
        ax.set_xlabel("iteration of sub-gradient descent")
        tidy(ax)
    legend_below(figure, left, 4)
    return figure


def main() -> int:
    options = command_line(__doc__, needs_data=False)
    assert options is not None
    kept = Kept.of_study("hidden_curves", options)
    curves = study(options.quick, kept)
    claims = judged(curves)
    report("Figures 4.2 and 4.4: convergence and likelihood", claims, DIFFERENCES)
    means = {run: {k: v.mean(axis=0) for k, v in found.items()} for run, found in curves.items()}
    save(options.output, "hidden_curves", {"hidden_curves": draw(means)}, {"mean over trials": means}, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())

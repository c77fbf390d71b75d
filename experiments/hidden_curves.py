"""Convergence, sample size and likelihood of learners with hidden variables (Figures 4.2 to 4.4 of [ping2016]).

    python experiments/hidden_curves.py [--quick] [--output FOLDER]

Figure 4.2: training error by iteration of sub-gradient descent. Figure 4.3: test error against the number of examples,
by CCCP on a chain of 20. Figure 4.4: log-likelihood of test outputs by iteration of sub-gradient descent. The models
are those of hidden_chain.py; the figures print no values, so that shapes are what can be compared.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np
from hidden_learners import THREE, accuracy, fitted, loss_of, sgd_text
from hidden_models import Shape, chain, simulated
from matplotlib.figure import Figure
from paper import HERE, Claim, command_line, legend_below, report, save, tidy
from trials import Kept, mean_and_error, paired, shown

from beliefs.learning import fit, losses
from beliefs.learning.result import FitProgress

TRIALS_SGD, TRIALS_SIZE = 5, 3
SIZES = (4, 16, 64, 256, 1024)
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
    f"Figures 4.2 and 4.4 show the first of {TRIALS_SGD} trials; what is said of them is the mean over all.",
    "Log-likelihood is that of the outputs given the inputs, hidden variables summed out, whatever the learner.",
    f"Figure 4.3 has {TRIALS_SIZE} trials and every second size, where the thesis has 5 and all powers of 2.",
    "Examples of a smaller training set are the first of the larger ones; the test examples are the same 500.",
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


def by_size(shape: Shape, seed: int, n_train: int, n_test: int, most: int, name: str) -> float:
    """Return the test error after learning from the first examples."""
    trial = simulated(shape, seed, most, n_test).first(n_train)
    started = time.perf_counter()
    error = 1 - accuracy(name, trial, fitted(name, trial, "cccp"))
    print(f"  {n_train} examples, trial {seed}: {name} {error:.3f} ({time.perf_counter() - started:.1f} s)", flush=True)
    return error


def study(quick: bool, kept: Kept) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Return curves (trial, iteration) by run, and errors (size, trial) by learner."""
    long, short = (chain(8), chain(6)) if quick else (chain(40), chain(20))
    iterations, sizes = (6, (5, 20)) if quick else (ITERATIONS, (20, 100))
    curves = {}
    for run in RUNS:
        rows = [kept.of(f"sgd/{seed}/{run}", partial(descent, long, seed, run, iterations, sizes))
                for seed in range(1 if quick else TRIALS_SGD)]  # fmt: skip
        curves[run] = {key: np.array([row[key] for row in rows]) for key in ("error", "likelihood")}
    trained, n_test = (SIZES[:2], 20) if quick else (SIZES, 500)
    seeds = range(1 if quick else TRIALS_SIZE)
    errors = {name: np.empty((len(trained), len(seeds))) for name in THREE}
    for seed in seeds:
        for k, n in enumerate(trained):
            for name in THREE:
                computed = partial(by_size, short, seed, n, n_test, trained[-1], name)
                errors[name][k, seed] = kept.of(f"size/{n}/{seed}/{name}", computed)
    return curves, errors


def roughness(curve: np.ndarray) -> float:
    """Return the mean change of the error between iterations, in the later half, per cent."""
    later = curve[:, curve.shape[1] // 2 :]
    return 100 * float(np.abs(np.diff(later, axis=1)).mean())


def settled(curve: np.ndarray) -> float:
    """Return after how many iterations the error is within a point of its last ten's mean, in the mean of trials."""
    ends = curve[:, -10:].mean(axis=1, keepdims=True)
    return float((np.argmax(curve <= ends + 0.01, axis=1) + 1).mean())


def judged(curves: dict[str, dict[str, np.ndarray]], errors: dict[str, np.ndarray]) -> list[Claim]:
    rough = {run: roughness(found["error"]) for run, found in curves.items()}
    soon = {run: settled(found["error"]) for run, found in curves.items()}
    at_end = {run: found["likelihood"][:, -1] for run, found in curves.items()}
    best = min(paired(at_end["HCRF"], at_end[run])[0] for run in ("MSSVM", "LSSVM"))
    marginal, latent, hcrf = (100 * errors[name] for name in THREE)
    few, many = slice(0, 2), slice(len(marginal) - 2, None)
    early, late = (paired(hcrf[part].mean(axis=0), latent[part].mean(axis=0)) for part in (few, many))
    first = sum(marginal.mean(axis=1) <= np.minimum(latent.mean(axis=1), hcrf.mean(axis=1)))
    return [
        Claim("Figure 4.2: MSSVM converges within 50 iterations, LSSVM (rate 0.001) after 250; HCRF soonest.",
              "Iterations to within a point of the last error: "
              + ", ".join(f"{run} {n:.0f}" for run, n in soon.items()) + ".",
              soon["MSSVM"] <= 50 < soon["LSSVM"]),
        Claim("Figure 4.2: LSSVM oscillates at larger rates, MSSVM little, HCRF is the smoothest.",
              "Mean change of the error between late iterations, points: "
              + ", ".join(f"{run} {value:.2f}" for run, value in rough.items()) + ".",
              rough["HCRF"] <= rough["MSSVM"] < rough["LSSVM, rate 0.02"]),
        Claim("Figure 4.3: HCRF is worse than LSSVM for few examples, and better for many.",
              f"Error of HCRF minus LSSVM: {shown(early)} points for the two smallest sets, {shown(late)} for the "
              "two largest.", early[0] > 0 > late[0]),
        Claim("Figure 4.3: MSSVM is the best at every size.", f"At {first} of {len(marginal)} sizes.",
              first == len(marginal)),
        Claim("Figure 4.4: HCRF has the highest test likelihood.",
              "At the last iteration, per example: "
              + ", ".join(f"{run} {shown(mean_and_error(v), 2)}" for run, v in at_end.items()) + ".", best > 0),
    ]  # fmt: skip


def draw(curves: dict[str, dict[str, np.ndarray]], errors: dict[str, np.ndarray]) -> Figure:
    figure = Figure(figsize=(10.4, 3.6), layout="constrained")
    a, b, c = figure.subplots(1, 3)
    for run, found in curves.items():
        wide = {"lw": 1.0, "zorder": 1} if "," in run else {"lw": 1.5, "zorder": 3}
        a.plot(100 * found["error"][0], color=COLOURS[run], label=run, **wide)
        c.plot(found["likelihood"][0], color=COLOURS[run], **wide)
    for name, values in errors.items():
        stats = [mean_and_error(100 * row) for row in values]
        b.errorbar(SIZES[: len(stats)], [s[0] for s in stats], [s[1] for s in stats], fmt="o-", ms=3.5, lw=1.5,
                   color=COLOURS[name])  # fmt: skip
    a.set(xlabel="iteration of sub-gradient descent", ylabel="training error, %", title="Figure 4.2")
    b.set(xlabel="training examples", ylabel="test error, %", title="Figure 4.3", xscale="log")
    c.set(xlabel="iteration of sub-gradient descent", ylabel="test log-likelihood an example", title="Figure 4.4")
    last = max(found["likelihood"][0].max() for found in curves.values())
    c.set_ylim(max(c.get_ylim()[0], 2.5 * last), None)
    for ax in (a, b, c):
        tidy(ax)
    legend_below(figure, a, 4)
    return figure


def main() -> int:
    options = command_line(__doc__, needs_data=False)
    assert options is not None
    kept = Kept(None if options.quick else HERE / "local" / "hidden_curves.trials.json")
    curves, errors = study(options.quick, kept)
    claims = judged(curves, errors)
    report("Figures 4.2 to 4.4: convergence, sample size, likelihood", claims, DIFFERENCES)
    numbers = {
        "sizes": SIZES[: len(errors["MSSVM"])],
        "test error": errors,
        "mean over trials": {run: {k: v.mean(axis=0) for k, v in found.items()} for run, found in curves.items()},
    }
    save(options.output, "hidden_curves", {"hidden_curves": draw(curves, errors)}, numbers, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())

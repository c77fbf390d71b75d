"""Test error against the number of examples, with hidden variables (Figure 4.3 of [ping2016]).

    python experiments/hidden_sizes.py [--quick] [--output FOLDER]

The models are those of hidden_chain.py, on a chain of 20; the figure prints no values, so that its shape is what can be
compared. Trials are kept in experiments/local/hidden_sizes.trials.json as they end.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np
from hidden_learners import BATCH, THREE, UPDATES, accuracy, fitted
from hidden_models import Shape, chain, simulated
from matplotlib.figure import Figure
from missing_labels import COLOURS
from paper import Claim, command_line, report, save, tidy
from trials import Kept, mean_and_error, paired, shown

TRIALS = 5
SIZES = (4, 16, 64, 256, 1024)

DIFFERENCES = [
    "Models, readings and starts as in hidden_chain.py; exact inference throughout. Every second power of 2.",
    f"The learner is sub-gradient descent with a step for each weight (Adam) and averaging, {UPDATES} updates from "
    f"{BATCH} examples each (all, where there are fewer), where the thesis has CCCP. Of 1,024 examples CCCP with "
    "thirty planes a round left the objective of MSSVM at 0.85, and this at 0.55, in half the time.",
    "Examples of a smaller training set are the first of the larger ones; the test examples are the same 500.",
]  # fmt: skip


def by_size(shape: Shape, seed: int, n_train: int, n_test: int, most: int, name: str) -> float:
    """Return the test error after learning from the first examples."""
    trial = simulated(shape, seed, most, n_test).first(n_train)
    started = time.perf_counter()
    error = 1 - accuracy(name, trial, fitted(name, trial, "adam"))
    print(f"  {n_train} examples, trial {seed}: {name} {error:.3f} ({time.perf_counter() - started:.1f} s)", flush=True)
    return error


def study(quick: bool, kept: Kept) -> dict[str, np.ndarray]:
    """Return errors (size, trial) by learner."""
    shape, sizes, n_test = (chain(6), SIZES[:2], 20) if quick else (chain(20), SIZES, 500)
    seeds = range(1 if quick else TRIALS)
    errors = {name: np.empty((len(sizes), len(seeds))) for name in THREE}
    for seed in seeds:
        for k, n in enumerate(sizes):
            for name in THREE:
                computed = partial(by_size, shape, seed, n, n_test, sizes[-1], name)
                errors[name][k, seed] = kept.of(f"{n}/{seed}/{name}", computed)
    return errors


def judged(errors: dict[str, np.ndarray]) -> list[Claim]:
    marginal, latent, hcrf = (100 * errors[name] for name in THREE)
    gaps = [paired(one, other) for one, other in zip(hcrf, latent, strict=True)]
    first = sum(marginal.mean(axis=1) <= np.minimum(latent.mean(axis=1), hcrf.mean(axis=1)))
    lead = paired(marginal.mean(axis=0), latent.mean(axis=0))
    return [
        Claim("HCRF is worse than LSSVM for few examples, and better for many.",
              "Error of HCRF minus LSSVM, points: "
              + ", ".join(f"{shown(gap)} for {n:,}" for n, gap in zip(SIZES, gaps, strict=False)) + ".",
              gaps[0][0] > 0 > gaps[-1][0]),
        Claim("MSSVM is the best at every size.",
              f"At {first} of {len(marginal)} sizes; error of MSSVM minus LSSVM over all sizes {shown(lead)} points.",
              first == len(marginal)),
    ]  # fmt: skip


def draw(errors: dict[str, np.ndarray]) -> Figure:
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = np.array(SIZES[: len(errors["LSSVM"])])
    for k, (name, values) in enumerate(errors.items()):
        stats = [mean_and_error(100 * row) for row in values]
        left.plot(sizes, [m for m, _ in stats], "o-", ms=4, lw=1.6, color=COLOURS[name], label=name)
        gaps = [paired(100 * one, 100 * other) for one, other in zip(values, errors["LSSVM"], strict=True)]
        if name != "LSSVM":
            right.errorbar(sizes * 1.06 ** (k - 1), [g[0] for g in gaps], [g[1] for g in gaps], fmt="o-", ms=4, lw=1.3,
                           color=COLOURS[name])  # fmt: skip
    right.axhline(0, color=COLOURS["LSSVM"], lw=1.0)
    left.set_ylabel("test error, %")
    right.set_ylabel("error minus that of LSSVM, points,\nand standard error over trials")
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.set_xlabel("training examples")
        tidy(ax)
    left.legend(frameon=False)
    return figure


def main() -> int:
    options = command_line(__doc__, needs_data=False)
    assert options is not None
    kept = Kept.of_study("hidden_sizes", options)
    errors = study(options.quick, kept)
    claims = judged(errors)
    report("Figure 4.3: sample size", claims, DIFFERENCES)
    numbers = {"sizes": SIZES[: len(errors["MSSVM"])], "test error": errors}
    save(options.output, "hidden_sizes", {"hidden_sizes": draw(errors)}, numbers, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())

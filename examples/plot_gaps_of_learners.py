"""How far from the optimum is a max-margin fit, and who can tell?

Noisy sequences of five labels, one structured SVM, four learners. Three of them know
a lower bound on the objective, so they can say at any time how far they are from the
optimum at most: the dashed lines. The full lines are how far they really are, by a
long run of one of them. Stochastic subgradients have no such bound, and no end of
their own.

Run ``python plot_gaps_of_learners.py`` to see the figure, or with the name of a file
to save it.
"""

import os
import sys

import matplotlib.pyplot as plt
import numpy as np

import beliefs as bl

N, LABELS, FEATURES, LENGTH = (
    (20, 3, 4, 6) if os.environ.get("QUICK") else (300, 5, 20, 12)
)
PASSES = 20 if os.environ.get("QUICK") else 150
C = 0.05
LEARNERS = {
    "bcfw": {"optimizer": "bcfw"},
    "one_slack": {"optimizer": "one_slack"},
    "n_slack": {"optimizer": "n_slack"},
    "sgd": {"optimizer": "sgd(step=0.3, batch_size=16)"},
}
COLOURS = {
    "bcfw": "#1f6391",
    "one_slack": "#c4541c",
    "n_slack": "#4f8a3a",
    "sgd": "#8a6fae",
}

# %%
# Labels that tend to stay, seen through features with as much noise as signal.
rng = np.random.default_rng(0)
centres = rng.normal(size=(LABELS, FEATURES))


def sequence() -> tuple[np.ndarray, np.ndarray]:
    stays = rng.random(LENGTH) < 0.6
    y = rng.integers(LABELS, size=LENGTH)
    for t in range(1, LENGTH):
        y[t] = y[t - 1] if stays[t] else y[t]
    return centres[y] + 2.0 * rng.normal(size=(LENGTH, FEATURES)), y


X, Y = zip(*(sequence() for _ in range(N)), strict=True)
X, Y = list(X), list(Y)

# %%
# The optimum, to a ten-millionth of the objective.
for options in LEARNERS.values():
    bl.ChainSVM(C=C, max_iters=1, **options).fit(
        X, Y
    )  # so that compiling counts for nobody
best = bl.ChainSVM(C=C, optimizer="one_slack", tol=1e-7, max_iters=5000).fit(X, Y)
optimum = best.result_.loss - best.result_.gap

# %%
# The same problem by each learner.
figure, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
for name, options in LEARNERS.items():
    svm = bl.ChainSVM(C=C, tol=1e-5, max_iters=PASSES, **options).fit(X, Y)
    trace = svm.result_.trace
    excess = np.maximum(trace.loss - optimum, 1e-12) / optimum
    ax.loglog(trace.seconds, excess, color=COLOURS[name], label=name)
    known = np.isfinite(trace.gap)
    ax.loglog(
        trace.seconds[known],
        trace.gap[known] / optimum,
        color=COLOURS[name],
        ls=(0, (4, 2)),
        lw=1,
    )
    wrong = int((trace.gap[known] / optimum < excess[known] - 1e-6).sum())
    said = (
        f"certified within {trace.gap[-1] / optimum:.1e}"
        if known.any()
        else "with no certificate"
    )
    print(
        f"{name}: {excess[-1]:.1e} above the optimum after "
        f"{trace.seconds[-1]:.2f} s, {said}; {wrong} false."
    )
ax.set(xlabel="seconds", ylabel="above the optimum, relative", ylim=(1e-6, 3))
ax.plot([], [], color="grey", label="excess")
ax.plot([], [], color="grey", ls=(0, (4, 2)), lw=1, label="certified gap")
ax.legend(frameon=False, fontsize="small", ncols=2)
for side in ("top", "right"):
    ax.spines[side].set_visible(False)

print(
    "No gap is below the truth: the dashed line of a learner lies above its full one."
)
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

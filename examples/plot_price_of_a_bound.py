"""What does a tighter interval cost?

Weighted mini-bucket elimination bounds log Z from both sides, and one number sets its
price: the i-bound, the number of variables that a message may have. Each step up
doubles the tables and narrows the interval, until at the width of the elimination
order the two bounds meet at the truth. On spin glasses of 12 by 12 the truth is
known, so here the whole way is drawn, next to what one can have for almost nothing:
tree-reweighted message passing and mean field over trees. At small i-bounds one step
may also lose a little: how the buckets are divided is a greedy choice.

Run ``python plot_price_of_a_bound.py`` to see the figure, or with the name of a file
to save it.
"""

import os
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np

import beliefs as bl

SIDE, SEEDS = (4, range(1)) if os.environ.get("QUICK") else (12, range(6))
COUPLINGS = {0.5: "Weak couplings", 1.0: "Strong couplings"}
IBOUNDS = range(1, 15)
BLUE, GREEN = "#1f6391", "#4f8a3a"

# %%
# Every run has at most 40 iterations. Bounds are kept as distances from the truth, in
# nats.
warnings.simplefilter("ignore", bl.ConvergenceWarning)
shape = (len(IBOUNDS), len(SEEDS))
upper = {coupling: np.zeros(shape) for coupling in COUPLINGS}
lower = {coupling: np.zeros(shape) for coupling in COUPLINGS}
cheap_upper = {coupling: np.zeros(len(SEEDS)) for coupling in COUPLINGS}
cheap_lower = {coupling: np.zeros(len(SEEDS)) for coupling in COUPLINGS}
for coupling in COUPLINGS:
    for s, seed in enumerate(SEEDS):
        grid = bl.datasets.make_ising_grid(
            SIDE, field=0.3, coupling=coupling, seed=seed
        )
        truth = bl.infer(grid, "junction_tree").log_z
        cheap_upper[coupling][s] = (
            bl.infer(grid, "trw(rho=optimized)").log_upper - truth
        )
        cheap_lower[coupling][s] = (
            bl.infer(grid, "mean_field(structure=tree)").log_lower - truth
        )
        for i, ibound in enumerate(IBOUNDS):
            above = bl.infer(grid, bl.WMB(ibound=ibound), max_iters=40)
            below = bl.infer(grid, bl.WMB(ibound=ibound, side="lower"), max_iters=40)
            upper[coupling][i, s], lower[coupling][i, s] = (
                above.log_upper - truth,
                below.log_lower - truth,
            )

# %%
# Lines are means, dots single grids; the band is what a user sees who does not know the
# truth.
figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
for ax, (coupling, title) in zip(axes, COUPLINGS.items(), strict=True):
    both = (
        (upper, cheap_upper, BLUE, "upper", "tree-reweighted"),
        (lower, cheap_lower, GREEN, "lower", "mean field"),
    )
    means = [bound[coupling].mean(axis=1) for bound, *_ in both]
    ax.fill_between(IBOUNDS, means[1], means[0], color="#dfe7ee", lw=0, zorder=0)
    for bound, cheap, colour, side, name in both:
        ax.plot(
            IBOUNDS,
            bound[coupling].mean(axis=1),
            color=colour,
            lw=2,
            label=f"weighted mini-bucket, {side}",
        )
        ax.plot(IBOUNDS, bound[coupling], ".", color=colour, ms=3.5, mew=0, alpha=0.4)
        ax.axhline(
            cheap[coupling].mean(),
            color=colour,
            lw=1.2,
            ls=(0, (1, 1.5)),
            label=f"{name}, {side}",
        )
    ax.axhline(0.0, color="black", lw=1.2, ls=(0, (4, 3)))
    ax.annotate(
        "truth",
        (1, 0),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
    )
    ax.set(xlabel="i-bound", title=title, xlim=(1, IBOUNDS[-1]), xticks=IBOUNDS[1::2])
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("distance from log Z, nats")
axes[1].legend(frameon=False, fontsize="small", loc="upper right")

inside = all((upper[c] >= -1e-8).all() and (lower[c] <= 1e-8).all() for c in COUPLINGS)
width = {c: [(upper[c] - lower[c])[i].mean() for i in (0, 5, 11)] for c in COUPLINGS}
print(
    f"The truth was inside the interval {'in every run' if inside else 'NOT always'}."
)
for c, (one, six, twelve) in width.items():
    print(
        f"Couplings of {c:g}: {one:.1f} nats wide at i-bound 1, "
        f"{six:.1f} at 6, {twelve:.2f} at 12."
    )
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

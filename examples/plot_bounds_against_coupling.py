"""How far can three approximations be trusted as couplings grow?

Mean field is never above log Z, tree-reweighted message passing never below it, and
belief propagation somewhere near, without a promise. On Ising grids of 10 by 10 the
junction tree knows the truth, so here all three are drawn around it: the band between
the two bounds always holds the truth, and its width is what a user who has no truth
can see.

Run ``python plot_bounds_against_coupling.py`` to see the figure, or with the name of
a file to save it.
"""

import os
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np

import beliefs as bl

SIDE, SEEDS, STEPS = (
    (4, range(2), 3) if os.environ.get("QUICK") else (10, range(10), 11)
)
COUPLINGS = np.linspace(0.0, 2.0, STEPS)
KINDS = {
    "attractive": "Neighbours agree (attractive)",
    "mixed": "Neighbours conflict (mixed signs)",
}
METHODS = {  # colour, and a shift so that dots of different methods do not overlap
    "trw": ("tree-reweighted, upper bound", "#1f6391", -0.025),
    "bp": ("belief propagation, estimate", "#c4541c", 0.0),
    "mean_field": ("mean field, lower bound", "#4f8a3a", 0.025),
}

# %%
# Fields and couplings are uniform in [-1, 1] and [-c, c] (absolute values of it where
# attractive). For every method the distance of log Z from the truth in nats, and the
# mean error of a marginal.
warnings.simplefilter("ignore", bl.ConvergenceWarning)
shape = (len(COUPLINGS), len(SEEDS))
apart = {(kind, method): np.empty(shape) for kind in KINDS for method in METHODS}
wrong = {(kind, method): np.empty(shape) for kind in KINDS for method in METHODS}
for kind in KINDS:
    for c, coupling in enumerate(COUPLINGS):
        for s, seed in enumerate(SEEDS):
            grid = bl.datasets.make_ising_grid(
                SIDE,
                field=1.0,
                coupling=coupling,
                law="uniform",
                attractive=kind == "attractive",
                seed=seed,
            )
            truth = bl.infer(grid, "junction_tree")
            for method in METHODS:
                found = bl.infer(grid, method, max_iters=300)
                apart[kind, method][c, s] = found.log_z - truth.log_z
                wrong[kind, method][c, s] = np.abs(found.mu_var - truth.mu_var).mean()

# %%
# Above: log Z, with the band of the two bounds around the truth. Below: marginals.
# Lines are means, dots single grids.
figure, axes = plt.subplots(
    2, 2, figsize=(9, 6.4), sharex=True, sharey="row", layout="constrained"
)
for column, (kind, title) in enumerate(KINDS.items()):
    above, below = axes[:, column]
    lower, upper = (
        apart[kind, "mean_field"].mean(axis=1),
        apart[kind, "trw"].mean(axis=1),
    )
    above.fill_between(COUPLINGS, lower, upper, color="#dfe7ee", lw=0, zorder=0)
    for method, (name, colour, shift) in METHODS.items():
        for ax, errors in ((above, apart[kind, method]), (below, wrong[kind, method])):
            ax.plot(
                COUPLINGS, errors.mean(axis=1), color=colour, lw=2, label=name, zorder=3
            )
            ax.plot(
                COUPLINGS + shift,
                errors,
                ".",
                color=colour,
                ms=3.5,
                mew=0,
                alpha=0.4,
                clip_on=False,
            )
    above.axhline(0.0, color="black", lw=1.2, ls=(0, (4, 3)), zorder=4)
    above.annotate(
        "truth",
        (1, 0),
        xycoords=("axes fraction", "data"),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
    )
    above.set_title(title)
    below.set(
        xlabel="largest coupling $c$",
        xlim=(0, COUPLINGS[-1] + 0.05),
        ylim=(0, None),
        xticks=np.arange(0, 2.1, 0.5),
    )
    for ax in (above, below):
        ax.spines[["top", "right"]].set_visible(False)
axes[0, 0].set_ylabel("log Z minus the truth, nats")
axes[1, 0].set_ylabel("mean error of a marginal")
axes[0, 0].legend(frameon=False, loc="upper left")

inside = all(
    (apart[kind, "mean_field"] <= 1e-9).all() and (apart[kind, "trw"] >= -1e-9).all()
    for kind in KINDS
)
widths = {
    kind: (apart[kind, "trw"] - apart[kind, "mean_field"])[-1].mean() for kind in KINDS
}
print(
    f"The truth was between the bounds {'in every run' if inside else 'NOT always'}. "
    f"At c = {COUPLINGS[-1]:g} they are {widths['attractive']:.0f} nats apart where "
    f"neighbours agree and {widths['mixed']:.0f} where they conflict."
)
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

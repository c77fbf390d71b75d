"""When does belief propagation go wrong?

Loopy belief propagation is exact on trees. On a grid it counts evidence that comes
back around a loop again and again; how much that hurts depends on how strongly
neighbours are coupled, and on whether they agree (attractive couplings) or conflict
(mixed signs). Grids of width 10 are still easy for the junction tree, so here the
truth is known.

Run ``python plot_exact_against_bp.py`` to see the figure, or ``python
plot_exact_against_bp.py FILE`` to save it.
"""

import os
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np

import beliefs as bl
from beliefs.plot import plot_scatter

SIDE, SEEDS, STEPS = (4, range(2), 3) if os.environ.get("QUICK") else (10, range(5), 8)
COUPLINGS = np.linspace(0.1, 1.5, STEPS)

# %%
# Every coupling on five random grids, both kinds, exactly and by belief propagation. A
# run that does not settle gives a warning and a status; here the status is what we want
# to know.
warnings.simplefilter("ignore", bl.ConvergenceWarning)
KINDS = {"mixed": False, "attractive": True}
errors = {kind: np.zeros((len(COUPLINGS), len(SEEDS))) for kind in KINDS}
settled = {kind: np.zeros((len(COUPLINGS), len(SEEDS)), bool) for kind in KINDS}
for kind, attractive in KINDS.items():
    for c, coupling in enumerate(COUPLINGS):
        for seed in SEEDS:
            grid = bl.datasets.make_ising_grid(
                SIDE, coupling=coupling, attractive=attractive, seed=seed
            )
            exact, bp = bl.infer(grid), bl.infer(grid, "bp", max_iters=200)
            errors[kind][c, seed] = np.abs(bp.mu_var - exact.mu_var).mean()
            settled[kind][c, seed] = bp.converged

# %%
# Left: the mean error of a marginal, filled where the run settled. Right: one grid in
# the middle, marginal by marginal.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for (kind, error), colour in zip(errors.items(), ("#c4541c", "#1f6391"), strict=True):
    left.plot(COUPLINGS, error.mean(axis=1), color=colour, label=kind)
    x = np.repeat(COUPLINGS, len(SEEDS))
    fill = np.where(settled[kind].ravel(), colour, "white")
    left.scatter(x, error.ravel(), s=16, facecolors=fill, edgecolors=colour, zorder=3)
left.set(
    xlabel="scale of the couplings", ylabel="mean error of a marginal", yscale="log"
)
left.legend(frameon=False)
middle = bl.datasets.make_ising_grid(SIDE, coupling=0.5, seed=0)
plot_scatter(bl.infer(middle, "bp"), bl.infer(middle), ax=right)

for kind, error in errors.items():
    print(
        f"With {kind} couplings the mean error of a marginal goes from "
        f"{error[0].mean():.1g} at {COUPLINGS[0]:g} to {error[-1].mean():.1g} at "
        f"{COUPLINGS[-1]:g}; {settled[kind].mean():.0%} of the runs settled."
    )
print(
    "Settling is no proof: a run may settle far from the truth, "
    "and only the exact answer shows it."
)
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

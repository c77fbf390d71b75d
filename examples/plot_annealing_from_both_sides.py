"""How many temperatures does an error bar need?

Annealed importance sampling estimates log Z of a Boltzmann machine with a standard
error. With too few temperatures the chains miss the mass, the estimate is far too
low, and its error bar knows nothing of it. Chains that go the other way are too high,
and the interval between the two, by Markov's inequality, holds the truth all the
same. Here the hidden layer is small enough to know the truth.

Run ``python plot_annealing_from_both_sides.py`` to see the figure, or with the name
of a file to save it.
"""

import os
import sys

import matplotlib.pyplot as plt
import numpy as np

import beliefs as bl

SHAPE, MOST = ((30, 6), 4) if os.environ.get("QUICK") else ((100, 16), 11)
TEMPERATURES = 2 ** np.arange(2, MOST)
CHAINS, CONFIDENCE = 100, 0.95

# %%
# A machine with strong weights, so that its mass is in few places; a small layer is
# enumerated by ``auto``.
rng = np.random.default_rng(1)
machine = bl.RBM(rng.normal(size=SHAPE), visible_bias=-2.0 * np.ones(SHAPE[0]))
truth = bl.infer(machine).log_z
runs = [
    bl.infer(machine, bl.AIS(chains=CHAINS, temperatures=int(k), reverse=True), seed=0)
    for k in TEMPERATURES
]

# %%
# Bars of three standard errors around both estimates, and the interval as a band.
figure, ax = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
ends = np.array([run.interval(CONFIDENCE) for run in runs]) - truth
ax.fill_between(
    TEMPERATURES, *ends.T, color="#dfe7ee", lw=0, label=f"interval, {CONFIDENCE:.0%}"
)
for name, label, colour, shift in (
    ("", "forward, 3 standard errors", "#1f6391", 0.97),
    ("_reverse", "reverse, 3 standard errors", "#c4541c", 1.03),
):
    values = np.array([getattr(run, f"log_z{name}") for run in runs]) - truth
    bars = 3.0 * np.array([getattr(run, f"standard_error{name}") for run in runs])
    ax.errorbar(
        shift * TEMPERATURES,
        values,
        bars,
        fmt="o-",
        color=colour,
        lw=1.5,
        ms=4,
        capsize=3,
        label=label,
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
ax.set(
    xscale="log",
    xlabel="temperatures",
    ylabel="log Z minus the truth, nats",
    yscale="symlog",
)
ax.set_xticks(TEMPERATURES, [str(k) for k in TEMPERATURES], minor=False)
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

held = bool((ends[:, 0] <= 0).all() and (ends[:, 1] >= 0).all())
missed = sum(abs(run.log_z - truth) > 3.0 * run.standard_error for run in runs)
print(
    "The interval held the truth "
    f"{'for every number of temperatures' if held else 'NOT always'}; "
    f"bars of three standard errors missed it in {missed} of {len(runs)} runs."
)
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

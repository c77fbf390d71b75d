"""What is the loss worth on a noisy picture?

One grid model, twelve weights, three ways to learn them from one noisy photograph;
each then cleans up another. The pseudo-likelihood needs no inference. The surrogate
likelihood runs tree-reweighted message passing until it settles. The clique logistic
loss asks for good marginals after ten sweeps, and its gradient goes back through
them. All predict with the same message passing. Cut at one half, the noisy picture
has 43 % of its pixels wrong.

Run ``python plot_three_losses.py`` to see the figure, or with the name of a file to
save it.
"""

import os
import sys

import matplotlib.pyplot as plt
import numpy as np

import beliefs as bl
from beliefs.metrics import error_rate, log_loss

EXPONENT = 1.25
STRIDE, ITERATIONS = (6, 3) if os.environ.get("QUICK") else (1, 20)
LOSSES = {
    "pseudo-likelihood": {"loss": "pseudo_likelihood"},
    "surrogate likelihood": {"loss": "surrogate_likelihood", "inference_tol": 1e-6},
    "clique logistic": {"loss": "clique_logistic", "n_sweeps": 10},
}

# %%
# A flower to learn from and a temple to test on, black and white, 106 by 160 pixels.
pictures = {
    name: x[::STRIDE, ::STRIDE]
    for name, x in bl.datasets.load_pictures(level="median").items()
}
noisy = {
    name: bl.datasets.make_noisy(x, exponent=EXPONENT, seed=k)
    for k, (name, x) in enumerate(pictures.items())
}
truth, seen = pictures["china"], noisy["china"]

# %%
# Twenty iterations each. An error rate counts wrong pixels; the log loss also asks how
# sure the model was.
marginals = {}
for name, options in LOSSES.items():
    crf = bl.GridCRF(max_iters=ITERATIONS, **options).fit(
        [noisy["flower"]], [pictures["flower"]]
    )
    marginals[name] = crf.predict_marginals([seen])[0]
errors = {
    name: error_rate([truth], [mu.argmax(axis=-1)]) for name, mu in marginals.items()
}

# %%
# Above what there was and what the models saw; below what they made of it.
figure, axes = plt.subplots(2, 3, figsize=(9.6, 4.7), layout="constrained")
cut = error_rate([truth], [(seen > 0.5).astype(int)])
shown = [("the photograph", truth), (f"seen through noise: {cut:.1%} wrong", seen)]
shown += [
    (f"{name}: {errors[name]:.1%} wrong", mu[..., 1]) for name, mu in marginals.items()
]
for ax, (title, values) in zip(axes.ravel()[[0, 1, 3, 4, 5]], shown, strict=True):
    ax.imshow(values, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    ax.set_title(title, size=10)
    ax.set_axis_off()

# %%
# How sure were they? Of the pixels to which a model gives about this probability, this
# share is white.
edges = np.linspace(0, 1, 11)
axes[0, 2].plot([0, 1], [0, 1], color="black", lw=1, ls=(0, (4, 3)))
for (name, mu), colour in zip(
    marginals.items(), ("#c4541c", "#4f8a3a", "#1f6391"), strict=True
):
    p = mu[..., 1].ravel()
    place = np.clip(np.digitize(p, edges) - 1, 0, 9)
    counts = np.bincount(place, minlength=10)
    kept = counts >= 50
    means, shares = (
        np.bincount(place, v, 10)[kept] / counts[kept] for v in (p, truth.ravel())
    )
    axes[0, 2].plot(means, shares, "o-", ms=3, color=colour, label=name)
axes[0, 2].set(xlabel="marginal", ylabel="share of white")
axes[0, 2].legend(frameon=False, fontsize="small", loc="lower right")

for name, mu in marginals.items():
    print(
        f"By {name} {errors[name]:.1%} of the pixels are wrong; "
        f"the log loss is {log_loss([truth], [mu]):.3f}."
    )
print(
    "Wrong pixels hardly tell the last two apart; "
    "whether a marginal can be taken at its word does."
)
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

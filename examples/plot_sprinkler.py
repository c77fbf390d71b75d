"""Was it the rain or the sprinkler?

The lawn is wet. Both causes become more likely; then someone says that the sprinkler
was on, and the rain is *explained away*: it becomes less likely again, though nothing
was said about it. The network is read from BIF, the format of the Bayesian network
repositories.

Run ``python plot_sprinkler.py`` to see the figure, or ``python plot_sprinkler.py
FILE`` to save it.
"""

import sys

import matplotlib.pyplot as plt

import beliefs as bl
from beliefs.plot import plot_marginals, plot_network

# %%
# The network. In a file, it would be read by ``bl.read("sprinkler.bif")``.
network = bl.io.bif.loads("""
network sprinkler { }
variable Cloudy { type discrete [ 2 ] { no, yes }; }
variable Sprinkler { type discrete [ 2 ] { off, on }; }
variable Rain { type discrete [ 2 ] { no, yes }; }
variable Grass { type discrete [ 2 ] { dry, wet }; }
probability ( Cloudy ) { table 0.5, 0.5; }
probability ( Sprinkler | Cloudy ) { (no) 0.5, 0.5; (yes) 0.9, 0.1; }
probability ( Rain | Cloudy ) { (no) 0.8, 0.2; (yes) 0.2, 0.8; }
probability ( Grass | Sprinkler, Rain ) {
  (off, no) 1.0, 0.0;
  (on, no) 0.1, 0.9;
  (off, yes) 0.1, 0.9;
  (on, yes) 0.01, 0.99;
}
""")

# %%
# Evidence enters by ``condition``; each answer is exact and says so.
prior = bl.infer(network)
wet = bl.infer(network.condition({"Grass": "wet"}))
both = bl.infer(network.condition({"Grass": "wet", "Sprinkler": "on"}))

# %%
# The observed variables are dark; the others are the more orange, the more they have
# changed.
figure, axes = plt.subplots(
    2, 2, figsize=(9, 6), layout="constrained", height_ratios=[1.2, 1]
)
for column, (result, before, title) in enumerate(
    [(wet, prior, "The grass is wet"), (both, wet, "... and the sprinkler was on")]
):
    plot_network(network, result, prior=before, ax=axes[0, column])
    axes[0, column].set_title(title)
    plot_marginals(result, ["Rain", "Cloudy"], prior=before, ax=axes[1, column])

rain = [float(result.marginal("Rain")[1]) for result in (prior, wet, both)]
print(
    f"P(rain) is {rain[0]:.3f} at first, {rain[1]:.3f} once the grass is wet, "
    f"and {rain[2]:.3f} once the sprinkler explains it."
)
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=150)
else:
    plt.show()

"""Pictures of models and results; needs the extra ``beliefs[plot]``.

Every function takes ``ax=None`` and returns the matplotlib Axes it drew on. Without ``ax`` it makes a figure as
``plt.subplots`` does: a notebook shows it at the end of the cell, a script with ``plt.show()``, and
``plot_network(bn).figure.savefig("network.svg")`` writes it.
"""

from beliefs.plot.charts import plot_grid, plot_marginals, plot_scatter, plot_trace
from beliefs.plot.images import plot_filters, plot_images
from beliefs.plot.network import marginal_change, marginal_entropy, plot_network
from beliefs.plot.regions import plot_regions

__all__ = [
    "marginal_change",
    "marginal_entropy",
    "plot_filters",
    "plot_grid",
    "plot_images",
    "plot_marginals",
    "plot_network",
    "plot_regions",
    "plot_scatter",
    "plot_trace",
]

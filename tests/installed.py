"""Every door of an installed package, once: questions, files, learners, the log; nothing but what a user has."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import numpy as np

import beliefs as bl

# Questions
asia = bl.datasets.load_bn("asia")
given = asia.condition({"xray": "yes"})
assert bl.infer(given).bound is bl.Bound.EXACT
assert bl.maximize(given).gap == 0
assert bl.marginal_map(given, ["lung", "bronc"]).gap == 0
assert bl.sample(given, 10, seed=0).samples.shape == (10, 8)
assert abs(bl.log_likelihood(asia, [[0] * 8]).mean - asia.log_score([0] * 8)) < 1e-9
grid = bl.datasets.make_ising_grid(4, seed=0)
truth = bl.infer(grid).log_z
assert bl.infer(grid, "mean_field").log_z <= truth <= bl.infer(grid, "wmb(ibound=2)").log_z

# Files
with tempfile.TemporaryDirectory() as folder:
    for suffix in ("bif", "uai", "npz", "xmlbif", "fg"):
        path = Path(folder) / f"asia.{suffix}.gz" if suffix != "npz" else Path(folder) / "asia.npz"
        bl.write(asia, path)
        again = bl.read(path)
        assert isinstance(again, bl.BayesianNetwork | bl.FactorGraph) and abs(bl.infer(again).log_z) < 1e-9

# Learners
rng = np.random.default_rng(0)
Y = [np.repeat(rng.integers(0, 2, (4, 2)), 2, axis=1) for _ in range(3)]
X = [y + 0.5 * rng.normal(size=y.shape) for y in Y]
assert bl.GridCRF(n_sweeps=2, max_iters=5).fit(X, Y).score(X, Y) > 0.7
tokens, labels = [x.reshape(-1, 1) for x in X], [y.ravel() for y in Y]
assert bl.ChainCRF().fit(tokens, labels).score(tokens, labels) > 0.7
assert bl.ChainSVM(max_iters=10).fit(tokens, labels).score(tokens, labels) > 0.7
path_edges = np.stack([np.arange(15), np.arange(1, 16)], axis=1)
graphs = [(x, path_edges) for x in tokens]
assert bl.GraphCRF(n_sweeps=2, max_iters=5).fit(graphs, labels).score(graphs, labels) > 0.7
rows = bl.sample(asia, 200, seed=0).samples
assert bl.BNLearner(asia).fit(rows).model_.n_vars == 8
assert bl.BernoulliRBM(n_components=2, n_iter=2).fit(rows).transform(rows).shape == (200, 2)

# The log is silent until somebody listens
heard: list[str] = []
handler = logging.Handler()
handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
logging.getLogger("beliefs").addHandler(handler)
bl.infer(given)
assert heard == []
logging.getLogger("beliefs").setLevel(logging.INFO)
bl.infer(given)
assert heard[0].startswith("infer by junction_tree: exact inference fits"), heard
print(f"Python {sys.version.split()[0]}: every door answers")

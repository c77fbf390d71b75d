"""One question of each door, a file and a fit, asked of an installed package: nothing here but what a user has."""

from __future__ import annotations

import numpy as np

import beliefs as bl

asia = bl.datasets.load_bn("asia")
given = asia.condition({"xray": "yes"})
assert bl.infer(given).bound is bl.Bound.EXACT
assert bl.maximize(given).gap == 0
assert bl.marginal_map(given, ["lung", "bronc"]).gap == 0
assert bl.sample(given, 10, seed=0).samples.shape == (10, 8)
assert bl.infer(bl.io.bif.loads(bl.io.bif.dumps(asia))).log_z == bl.infer(asia).log_z
rng = np.random.default_rng(0)
Y = [np.repeat(rng.integers(0, 2, (4, 2)), 2, axis=1) for _ in range(3)]
X = [y + 0.5 * rng.normal(size=y.shape) for y in Y]
assert bl.GridCRF(n_sweeps=2, max_iters=5).fit(X, Y).score(X, Y) > 0.7

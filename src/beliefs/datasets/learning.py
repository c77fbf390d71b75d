r"""The models from which the learning studies draw their data: the ladder, the hidden chain and the hidden grid.

Variables are named by their role, so that a study picks inputs, outputs and hidden variables by name.
"""

from __future__ import annotations

import numpy as np

from beliefs.datasets.arguments import check_count, check_room, check_scale, generator
from beliefs.datasets.edges import chain_edges, grid_edges
from beliefs.model.graph import FactorGraph
from beliefs.typing import Bools, Floats, Ints

__all__ = ["make_hidden_chain", "make_hidden_grid", "make_ladder"]

_ROLES = ("x", "y", "h")


def make_ladder(n_rungs: int = 10, *, scale: float = 1.0, seed: int | np.random.Generator = 0) -> FactorGraph:
    r"""Draw the joint model of outputs ``x0, x1, ...`` and inputs ``y0, y1, ...`` on a ladder, all binary.

    .. math::
        p(x, y) \propto \exp\Bigl(\sum_i \theta_i(x_i) + \sum_i t_i s(x_i, x_{i+1}) + \sum_i u_i s(y_i, y_{i+1})
        + \sum_i v_i s(x_i, y_i)\Bigr)

    with :math:`s` one for equal states and minus one otherwise, and every :math:`\theta_i(0), \theta_i(1), t_i, u_i,
    v_i` uniform on ``[-scale, scale]`` ([domke2013] section 4.3). The unary factors of the inputs are zero. Edges
    come in the order x-x, y-y, x-y. Treewidth 2.

    Examples
    --------
    >>> make_ladder(3).variables[3].name
    'y0'
    """
    n = check_count("n_rungs", n_rungs)
    check_room(20 * n)
    bound = check_scale("scale", scale)
    rng = generator(seed)
    rail, rungs = chain_edges(n), np.arange(n, dtype=np.int64)
    edges = np.concatenate([rail, rail + n, np.stack([rungs, rungs + n], axis=1)])
    unary = np.zeros((2 * n, 2))
    unary[:n] = rng.uniform(-bound, bound, (n, 2))
    coupling = rng.uniform(-bound, bound, (len(edges), 1, 1))
    tables = coupling * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return FactorGraph.pairwise(unary, edges, tables, names=[f"{r}{i}" for r in "xy" for i in range(n)])


def make_hidden_chain(
    length: int = 20,
    *,
    n_states: int = 4,
    sigma_x: float = 0.1,
    sigma_y: float = 0.1,
    sigma_h: float = 0.1,
    sigma_xy: float = 2.0,
    sigma_xh: float = 2.0,
    sigma_yh: float = 2.0,
    seed: int | np.random.Generator = 0,
) -> FactorGraph:
    r"""Draw the hidden chain: outputs and hidden variables alternate along it, each with an input of its own.

    Position ``t`` of the chain is the output ``y{t}`` for even and the hidden ``h{t}`` for odd ``t``; the input
    ``x{t}`` hangs on it. All entries are independent, :math:`\theta_i(x_i) \sim N(0, \sigma_x^2)` and likewise for y
    and h, :math:`\theta_{ij}(y_i, h_j) \sim N(0, \sigma_{yh}^2)` and likewise for the other pairs of roles, which
    are the only edges ([ping2016] section 4.7). A small ``sigma_h`` makes the hidden states uncertain. The
    ``2*length`` variables (40 in the source) are the inputs, then the chain.

    Examples
    --------
    >>> [v.name for v in make_hidden_chain(2).variables]
    ['x0', 'x1', 'y0', 'h1']
    """
    n = check_count("length", length)
    k = check_count("n_states", n_states)
    check_room(2 * n * (k + k**2))
    hidden = np.arange(n) % 2 == 1
    sigmas = _sigmas(sigma_x, sigma_y, sigma_h, sigma_xy, sigma_xh, sigma_yh)
    return _hidden_model(chain_edges(n), hidden, k, sigmas, seed)


def make_hidden_grid(
    rows: int = 6,
    cols: int | None = None,
    *,
    n_states: int = 4,
    sigma_x: float = 0.1,
    sigma_y: float = 0.1,
    sigma_h: float = 0.1,
    sigma_xy: float = 2.0,
    sigma_xh: float = 2.0,
    sigma_yh: float = 2.0,
    seed: int | np.random.Generator = 0,
) -> FactorGraph:
    """Draw the hidden grid: outputs and hidden variables form a checkerboard, each with an input of its own.

    Cell ``t`` of the grid, counted row by row, is ``y{t}`` where row plus column is even and ``h{t}`` elsewhere, with
    the input ``x{t}``; the law is that of :func:`make_hidden_chain`. The source's 6x6 grid has 72 variables.

    Examples
    --------
    >>> make_hidden_grid(6)
    FactorGraph(72 variables, 168 factors, 1824 cells)
    """
    rows = check_count("rows", rows)
    cols = rows if cols is None else check_count("cols", cols)
    k = check_count("n_states", n_states)
    check_room(rows * cols * (2 * k + 3 * k**2))
    hidden = (np.add.outer(np.arange(rows), np.arange(cols)) % 2 == 1).ravel()
    sigmas = _sigmas(sigma_x, sigma_y, sigma_h, sigma_xy, sigma_xh, sigma_yh)
    return _hidden_model(grid_edges(rows, cols), hidden, k, sigmas, seed)


def _sigmas(x: float, y: float, h: float, xy: float, xh: float, yh: float) -> Floats:
    """Return the scales as a symmetric table of roles: singles on the diagonal, pairs off it."""
    names = ("sigma_x", "sigma_y", "sigma_h", "sigma_xy", "sigma_xh", "sigma_yh")
    sx, sy, sh, sxy, sxh, syh = map(check_scale, names, (x, y, h, xy, xh, yh))
    return np.array([[sx, sxy, sxh], [sxy, sy, syh], [sxh, syh, sh]])


def _hidden_model(
    edges: Ints, hidden: Bools, n_states: int, sigmas: Floats, seed: int | np.random.Generator
) -> FactorGraph:
    """Hang an input on every vertex and draw all tables at the scales of their roles."""
    rng = generator(seed)
    n = len(hidden)
    vertices = np.arange(n, dtype=np.int64)
    edges = np.concatenate([edges + n, np.stack([vertices, vertices + n], axis=1)])
    role = np.concatenate([np.zeros(n, np.int64), np.where(hidden, 2, 1)])
    unary = sigmas[role, role][:, None] * rng.standard_normal((2 * n, n_states))
    scale = sigmas[role[edges[:, 0]], role[edges[:, 1]]]
    tables = scale[:, None, None] * rng.standard_normal((len(edges), n_states, n_states))
    names = [f"{_ROLES[r]}{v % n}" for v, r in enumerate(role.tolist())]
    return FactorGraph.pairwise(unary, edges, tables, names=names)

r"""Potentials for a given structure: the laws by which pairwise models are drawn.

Every number is a scale times a unit draw, so that one seed with another scale gives the same model, stretched.
The fields are drawn first, vertex by vertex, then the couplings, edge by edge. With :math:`h` drawn at the scale
``field`` and :math:`J` at the scale ``coupling``, the forms are

================  ==========================================  ===================================================
form              vertices                                    edges
================  ==========================================  ===================================================
``ising``         :math:`h_i x_i`                             :math:`J_{ij} x_i x_j`, state 0 is -1 and state 1 is +1
``potts``         :math:`h_i(x_i)`                            :math:`J_{ij} [x_i = x_j]`
``tables``        :math:`h_i(x_i)`                            :math:`J_{ij}(x_i, x_j)`
``identifiable``  :math:`h_i(x_i)`, :math:`h_i(0)=0`          :math:`J_{ij}(x_i, x_j)`, symmetric, zero where
                                                              :math:`x_i=0` or :math:`x_j=0`
================  ==========================================  ===================================================

and the laws of a unit draw ``gaussian``, :math:`N(0, 1)`; ``uniform``, :math:`U[-1, 1]`; ``constant``, always 1 (the
couplings are then one table tied over all edges). ``ising`` is the test bed of [gelfand2014] chapter 3,
``identifiable`` that of its section 4.4: distinct parameters give distinct distributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, get_args

import numpy as np
from numpy.typing import ArrayLike

from beliefs.datasets.arguments import check_count, check_finite, check_room, check_scale, generator
from beliefs.errors import ModelError
from beliefs.model.factor import numeric
from beliefs.model.graph import FactorGraph
from beliefs.model.variable import suggestion
from beliefs.typing import Floats

__all__ = ["Form", "Law", "PairwiseOptions", "make_pairwise"]

Form = Literal["ising", "potts", "tables", "identifiable"]
Law = Literal["gaussian", "uniform", "constant"]


class PairwiseOptions(TypedDict, total=False):
    """The keywords of :func:`make_pairwise` that every pairwise generator passes on."""

    n_states: int
    form: Form | None
    law: Law
    field: float
    coupling: float | ArrayLike
    attractive: bool


def make_pairwise(
    n_vars: int,
    edges: ArrayLike,
    *,
    n_states: int = 2,
    form: Form | None = None,
    law: Law = "gaussian",
    field: float = 0.1,
    coupling: float | ArrayLike = 0.5,
    attractive: bool = False,
    names: Sequence[str] | None = None,
    seed: int | np.random.Generator = 0,
) -> FactorGraph:
    """Draw a pairwise model on given edges: ``n_vars`` unary factors, then one factor for each edge.

    Parameters
    ----------
    n_vars : int
    edges : array_like of int (m, 2)
    n_states : int
        Cardinality of every variable.
    form : {"ising", "potts", "tables", "identifiable"}, optional
        What is drawn; see the table of :mod:`beliefs.datasets.pairwise`. Two states default to ``ising``, more to
        ``potts``.
    law : {"gaussian", "uniform", "constant"}
    field : float
        Scale of the unary numbers: standard deviation, half-width or the value itself.
    coupling : float or array_like (m,)
        Scale of the pairwise numbers, for all edges or edge by edge; negative only under ``constant``.
    attractive : bool
        Take absolute values of the couplings, so that neighbours like to agree (``ising`` and ``potts`` only).
    names : sequence of str, optional
    seed : int or numpy.random.Generator

    Examples
    --------
    >>> g = make_pairwise(3, [(0, 1), (1, 2)], law="constant", field=0.0, coupling=0.7)
    >>> g.log_score([0, 0, 0]), g.log_score([0, 1, 0])
    (1.4, -1.4)
    """
    n, k = check_count("n_vars", n_vars), check_count("n_states", n_states)
    chosen: Form = form if form is not None else ("ising" if k == 2 else "potts")
    _check_words(chosen, law, k, attractive)
    pairs = np.asarray(edges)
    if pairs.size == 0:
        pairs = np.zeros((0, 2), np.int64)
    scale = _scales(law, field, coupling, len(pairs), attractive)
    check_room(n * k + len(pairs) * k**2)
    rng = generator(seed)
    unary = _unary(chosen, scale[0] * _draw(rng, law, (n, _n_unary(chosen, k))))
    tied = law == "constant" and scale[1].ndim == 0 and len(pairs) > 0
    numbers = _draw(rng, law, (1 if tied else len(pairs), _n_pair(chosen, k)))
    numbers *= scale[1] if scale[1].ndim == 0 else scale[1][:, None]
    tables = _pair(chosen, k, np.abs(numbers) if attractive else numbers)
    return FactorGraph.pairwise(unary, pairs, tables[0] if tied else tables, names=names)


def _check_words(form: str, law: str, k: int, attractive: bool) -> None:
    for what, word, known in (("form", form, get_args(Form)), ("law", law, get_args(Law))):
        if word not in known:
            raise ModelError(f"{what} must be one of {', '.join(known)}, found {word!r}{suggestion(str(word), known)}")
    if form == "ising" and k != 2:
        raise ModelError(f"form 'ising' needs n_states=2, found {k}; try form='potts'")
    if attractive and form not in ("ising", "potts"):
        raise ModelError(f"attractive couplings are defined for the forms ising and potts, found {form!r}")


def _scales(
    law: str, field: float, coupling: float | ArrayLike, n_edges: int, attractive: bool
) -> tuple[float, Floats]:
    scale = numeric(coupling, "coupling")
    if scale.shape not in ((), (n_edges,)):
        raise ModelError(f"coupling must be one number or have shape ({n_edges},), found shape {scale.shape}")
    if not np.isfinite(scale).all():
        raise ModelError(f"coupling must be finite, found {scale[~np.isfinite(scale)].flat[0]}")
    if (law != "constant" or attractive) and (scale < 0).any():
        raise ModelError(f"coupling must be at least 0, found {scale.min()}; law='constant' takes negative values")
    return (check_finite if law == "constant" else check_scale)("field", field), scale


def _draw(rng: np.random.Generator, law: str, shape: tuple[int, int]) -> Floats:
    if law == "gaussian":
        return rng.standard_normal(shape)
    return rng.uniform(-1.0, 1.0, shape) if law == "uniform" else np.ones(shape)


def _n_unary(form: str, k: int) -> int:
    return {"ising": 1, "identifiable": k - 1}.get(form, k)


def _n_pair(form: str, k: int) -> int:
    return {"tables": k * k, "identifiable": k * (k - 1) // 2}.get(form, 1)


def _unary(form: str, h: Floats) -> Floats:
    """Spread the numbers of each vertex, ``(n, _n_unary)``, over its states, ``(n, k)``."""
    if form == "ising":
        return np.concatenate([-h, h], axis=1)
    return np.pad(h, ((0, 0), (1, 0))) if form == "identifiable" else h


def _pair(form: str, k: int, j: Floats) -> Floats:
    """Spread the numbers of each edge, ``(m, _n_pair)``, over its table, ``(m, k, k)``."""
    if form == "tables":
        return j.reshape(-1, k, k)
    tables = np.zeros((len(j), k, k))
    if form == "identifiable":
        a, b = np.triu_indices(k - 1)
        tables[:, a + 1, b + 1] = tables[:, b + 1, a + 1] = j
        return tables
    tables -= (form == "ising") * j[:, :, None]
    states = np.arange(k)
    tables[:, states, states] = j
    return tables

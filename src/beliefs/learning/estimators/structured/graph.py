r"""Conditional random fields on any graph: one matrix of weights for the vertices and one for each type of edge.

.. math::
    \theta_i = F u_i, \qquad \theta_{ij} = G_t v_{ij}, \qquad \theta_c = H_t v_c

with :math:`F \in R^{K \times D}`, :math:`G_t \in R^{K^2 \times E_t}`, row ``x_i * K + x_j`` for the edge stored as
``(i, j)`` ([domke2013] section 8.1), and larger cliques the same way. Edges of a type share their weights; without
features of their own they share one table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.estimators.base import DataForm
from beliefs.learning.estimators.examples import Examples
from beliefs.learning.estimators.inputs import (
    FactorSpec,
    ParsedInput,
    as_array,
    checked_features,
    checked_scopes,
    with_intercept,
)
from beliefs.learning.estimators.structured.crf import CRF
from beliefs.learning.estimators.structured.states import StateSpaces, checked_hidden
from beliefs.model.features import Rows, Template
from beliefs.options import check_option
from beliefs.typing import Ints

__all__ = ["GraphCRF"]

_MOST_TYPES = 10_000  # each has a table of its own
_KEYS = ("unary", "edges", "edge_features", "edge_types", "hidden", "cliques")
_NO_PARTS = dict.fromkeys(_KEYS)


@dataclass(kw_only=True, eq=False, repr=False)
class GraphCRF(CRF):
    """A conditional random field whose inputs bring their own graph; for the other options see :class:`CRF`.

    An input is a tuple ``(unary, edges)``, ``(unary, edges, edge_features)`` or
    ``(unary, edges, edge_features, edge_types)``, or a dict with these keys:

    ===================  ======================================================================================
    ``unary``            ``(n, D)`` features of the vertices, an array or ``scipy.sparse`` rows
    ``edges``            ``(m, 2)`` pairs of vertices, counted from 0; or a list of such arrays, one per type
    ``edge_features``    ``(m, E)``, or a list with one entry per type; None: all edges of a type share a table
    ``edge_types``       ``(m,)`` integers, where ``edges`` is one array and there are several types
    ``cliques``          a list of types of larger factors, each ``(scopes (m, arity), features (m, E) or None)``
    ``hidden``           ``(n,)`` booleans: vertices that are hidden in every instance like this, and have no label
    ===================  ======================================================================================

    Labels are ``(n,)`` integers, -1 where hidden. A vertex that is declared ``hidden`` has no label: -1 in ``Y`` and in
    predictions; :meth:`predict_latent` shows its state.

    Parameters
    ----------
    hidden_weights : bool
        Whether vertices that are declared hidden, and edges and cliques that touch them, have weights of their own.
        They always have where ``n_hidden_states`` is not the number of labels, and beside ``substates``.
    intercept : bool
        Whether the vertices have the constant 1 as a last feature. Features of edges are taken as they are.
    template : Template, optional
        How potentials follow from weights and inputs where that is not linear: a
        :class:`~beliefs.model.features.DifferentiableTemplate`, whose functions get each input as it was given, and
        make ``n`` tables of K entries, then the tables of the edges and cliques, type after type.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> edges = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    >>> Y = [np.repeat(rng.integers(2, size=2), 2) for _ in range(20)]
    >>> X = [(y[:, None] + rng.normal(size=(4, 1)), edges) for y in Y]
    >>> crf = GraphCRF(loss="likelihood", l2=0.01).fit(X, Y)
    >>> crf.predict(X)[0].shape, crf.score(X, Y) > 0.7
    ((4,), True)
    """

    intercept: bool = True
    template: Template | None = None
    hidden_weights: bool = False

    data_form: ClassVar[DataForm] = DataForm(
        "`(n, D)`",
        "`(n,)`",
        ("edges", "edge_features", "edge_types", "hidden"),
        "`edges (m, 2)`, `edge_features (m, E)`, `edge_types (m,)`, `hidden (n,)`; `edges`, `edge_types` and `hidden` "
        "without a number are those of all",
        {"edges": 2, "edge_types": 1, "hidden": 1},
    )
    _switches: ClassVar[tuple[str, ...]] = ("intercept", "hidden_weights")
    _learned_names: ClassVar[tuple[str, ...]] = ("n_edge_types_", "has_hidden_")
    _may_declare_hidden: ClassVar[bool] = True

    @classmethod
    def tiny_data(cls) -> tuple[list[Any], list[Any]]:
        """Return two triangles."""
        labels, edges = np.arange(3) % 2, np.array([(0, 1), (1, 2), (0, 2)])
        return [(labels[:, None] + shift, edges) for shift in (0.5, -0.5)], [labels, labels]

    @classmethod
    def input_of(cls, x: np.ndarray, further: Sequence[np.ndarray | None]) -> Any:
        """Return an input made of the arrays of a file."""
        return dict(zip(("unary", *cls.data_form.further), (x, *further), strict=True))

    def _check_options(self) -> None:
        super()._check_options()
        check_option(
            self.template is None or hasattr(self.template, "n_weights"), "template", "a Template", self.template
        )

    def _prepare(self, examples: Examples) -> None:
        """Count the types of edges where they are given as integers, and see whether vertices are declared hidden."""
        self.n_edge_types_, self.has_hidden_ = 1, False
        for example in examples:
            parts = _parts(example.x, example.name)
            self.has_hidden_ |= parts["hidden"] is not None
            types = parts["edge_types"]
            if types is None:
                continue
            array = as_array(types, example.name, "edge_types")
            most = int(array.max(initial=0)) if array.dtype.kind in "iu" else 0
            if most >= _MOST_TYPES:
                raise ModelError(f"{example.name}: edge_types go up to {most}; number the types 0, 1, ...")
            self.n_edge_types_ = max(self.n_edge_types_, most + 1)
        if not self.has_hidden_ and (self.hidden_weights or self.n_hidden_states is not None):
            which = "hidden_weights" if self.hidden_weights else "n_hidden_states"
            raise ModelError(f"{which} is said, and no input declares vertices hidden (the key 'hidden' of a dict)")

    @property
    def _has_hidden(self) -> bool:
        return bool(getattr(self, "has_hidden_", False))  # files of earlier releases do not say

    def _state_spaces(self) -> StateSpaces:
        spaces = replace(super()._state_spaces(), declared=self._has_hidden)
        if not self._has_hidden:
            return spaces
        asked, n = self.hidden_weights or spaces.substates is not None, self.n_hidden_states
        own = self.template is None and (asked or n not in (None, self.n_states_))
        return replace(spaces, n_hidden=n, own=own)

    def _template(self, kinds: tuple[FactorSpec, ...]) -> Template:
        return super()._template(kinds) if self.template is None else self.template

    @property
    def _n_constants(self) -> int:
        return int(self.intercept)

    def _read(self, x: Any, name: str) -> ParsedInput:
        parts = _parts(x, name)
        unary = checked_features(parts["unary"], None, name, "unary features")
        n = int(unary.shape[0])
        if n == 0:
            raise ModelError(f"{name} has no vertices; leave it out")
        hidden = checked_hidden(parts["hidden"], n, name)
        if hidden is not None and not self._has_hidden:
            raise ModelError(f"{name} declares vertices hidden, and the model was fitted to inputs that declare none")
        groups = [*self._edges(parts, n, name), *_cliques(parts["cliques"], n, name)]
        unary = with_intercept(unary) if self.intercept else unary
        kinds = (FactorSpec("vertices", 1, int(unary.shape[1])), *(group.kind for group in groups))
        told = [part for group in groups for part in (b"%d " % len(group.scopes), group.scopes.tobytes())]
        if hidden is not None:
            told.append(hidden.tobytes())
        if self.template is None:
            inputs: Any = (Rows(n, unary), *(Rows(len(group.scopes), group.values) for group in groups))
        else:
            inputs, kinds = x, tuple(replace(kind, tied=False) for kind in kinds)
        key = (n, hashlib.blake2b(b"".join(told), digest_size=16).digest())
        return ParsedInput(
            (n,), inputs, kinds, lambda: [np.arange(n)[:, None], *(g.scopes for g in groups)], key, hidden
        )

    def _edges(self, parts: dict[str, Any], n: int, name: str) -> list[_Group]:
        """Return the edges type by type."""
        edges, values, types = parts["edges"], parts["edge_features"], parts["edge_types"]
        if edges is None:
            return []
        if _is_list_of_types(edges):
            if types is not None:
                raise ModelError(f"{name}: edges come as a list, one entry per type, so leave out edge_types")
            each = [None] * len(edges) if values is None else values
            if not (isinstance(each, list | tuple) and len(each) == len(edges)):
                raise ModelError(f"{name}: edge_features must be a list with one entry for each of {len(edges)} types")
            return [
                _group(e, v, n, name, f"edges of type {t}") for t, (e, v) in enumerate(zip(edges, each, strict=True))
            ]
        if types is None:
            return [_group(edges, values, n, name, "edges")]
        return self._typed(_group(edges, values, n, name, "edges", repeated=True), np.asarray(types), n, name)

    def _typed(self, group: _Group, types: np.ndarray, n: int, name: str) -> list[_Group]:
        """Divide edges by their types."""
        if types.shape != (len(group.scopes),) or (types.size and types.dtype.kind not in "iu"):
            raise ModelError(
                f"{name}: edge_types must be {len(group.scopes)} integers, one per edge, found {types.shape}"
            )
        wrong = (types < 0) | (types >= self.n_edge_types_)
        if wrong.any():
            e = int(np.argmax(wrong))
            raise ModelError(f"{name}: edge_types[{e}] is {types[e]}; types are 0..{self.n_edge_types_ - 1}")
        chosen = [np.flatnonzero(types == t) for t in range(self.n_edge_types_)]
        values = [None if group.values is None else group.values[at] for at in chosen]
        return [
            _group(group.scopes[at], v, n, name, f"edges of type {t}")
            for t, (at, v) in enumerate(zip(chosen, values, strict=True))
        ]


@dataclass(frozen=True, eq=False)
class _Group:
    """The factors of one type in one input: their scopes ``(m, arity)`` and features ``(m, E)`` or None."""

    kind: FactorSpec
    scopes: Ints
    values: Any


def _group(
    scopes: Any, values: Any, n: int, name: str, what: str, arity: int | None = 2, repeated: bool = False
) -> _Group:
    checked = checked_scopes(scopes, n, name, what, arity, repeated)
    rows = None if values is None else checked_features(values, len(checked), name, f"features of {what}")
    width = 1 if rows is None else int(rows.shape[1])
    return _Group(FactorSpec(what, int(checked.shape[1]), width, rows is None), checked, rows)


def _cliques(groups: Any, n: int, name: str) -> list[_Group]:
    if groups is None:
        return []
    if not isinstance(groups, list | tuple):
        raise ModelError(f"{name}: cliques are a list of types, found {type(groups).__name__}")
    for group in groups:
        if not (isinstance(group, tuple | list) and len(group) == 2):
            raise ModelError(f"{name}: cliques are a list of types, each a pair (scopes, features or None)")
    return [_group(s, v, n, name, f"cliques of type {t}", None) for t, (s, v) in enumerate(groups)]


def _is_list_of_types(edges: Any) -> bool:
    """Whether edges come as a list of arrays: its entries are themselves lists of pairs."""
    return isinstance(edges, list | tuple) and len(edges) > 0 and all(np.ndim(e) == 2 or np.size(e) == 0 for e in edges)


def _parts(x: Any, name: str) -> dict[str, Any]:
    """Return an input as a dict with all keys."""
    if isinstance(x, Mapping):
        for key in x:
            if key not in _KEYS:
                raise ModelError(f"{name} has the key {key!r}; known are {', '.join(_KEYS)}")
        found = dict(x)
    elif isinstance(x, tuple | list) and 2 <= len(x) <= 4:
        found = dict(zip(_KEYS, x, strict=False))
    else:
        raise ModelError(
            f"{name}: an input is a tuple (unary, edges) or (unary, edges, edge_features), or a dict with "
            f"{', '.join(_KEYS)}; found {type(x).__name__}"
        )
    if found.get("unary") is None:
        raise ModelError(f"{name}: unary features are missing")
    return _NO_PARTS | found

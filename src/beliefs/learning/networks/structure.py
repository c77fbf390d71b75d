"""Which variables a network has and who is whose parent, without any tables.

A structure is a network, a mapping of children to parents, arcs ``(parent, child)``, or anything with ``nodes`` and
``edges``. Its layout is that of the network to be: factor ``v`` has the scope (parents of ``v``, then ``v``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.bayes_net import BayesianNetwork, topological_order
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.options import is_iterable, shown
from beliefs.typing import Floats, Ints

__all__ = ["Structure", "given_network", "hidden_states", "structure_over"]


@dataclass(frozen=True, eq=False)
class Structure:
    """Variables and parents: a naming, and a layout whose factor ``v`` is the family of variable ``v``."""

    naming: Naming
    layout: Layout

    @classmethod
    def of_parents(cls, naming: Naming, parents: Sequence[Sequence[int]]) -> Structure:
        """Build from the parents of each variable; a cycle raises with its names."""
        for v, above in enumerate(parents):
            if len(set(above)) < len(above):
                raise ModelError(f"variable {naming.name(v)!r} has a parent twice")
            if v in above:
                raise ModelError(f"the arcs form a cycle: {naming.name(v)} <- {naming.name(v)}")
        flat = np.array([u for v, above in enumerate(parents) for u in (*above, v)], np.int64)
        ends = np.cumsum([len(above) + 1 for above in parents], dtype=np.int64)
        layout = Layout.build(naming.card, np.concatenate([[0], ends]), flat)
        topological_order(layout, naming)
        return cls(naming, layout)

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return self.layout.n_vars

    def parents(self, v: int) -> Ints:
        """Return the parents of a variable."""
        return self.layout.scope(v)[:-1]

    @cached_property
    def n_columns(self) -> Ints:
        """Joint states of the parents of each variable."""
        return self.layout.factor_size // self.layout.card

    @cached_property
    def n_parameters(self) -> int:
        """Free numbers in all tables."""
        return int((self.n_columns * (self.layout.card - 1)).sum())

    def network(self, probabilities: Floats) -> BayesianNetwork:
        """Return the network with these tables, end to end."""
        return BayesianNetwork.build(self.layout, probabilities, self.naming)

    def column(self, v: int, number: int) -> str:
        """Return a joint state of the parents as ``A=yes, B=no``."""
        above = self.parents(v)
        states = np.unravel_index(number, tuple(self.layout.card[above])) if above.size else ()
        return ", ".join(
            f"{self.naming.name(int(u))}={self.naming.label(int(u), int(x))}"
            for u, x in zip(above, states, strict=True)
        )


def given_network(structure: Any) -> BayesianNetwork | None:
    """Return the network that a structure is, or None."""
    if isinstance(structure, BayesianNetwork):
        return structure
    return BayesianNetwork.from_factor_graph(structure) if isinstance(structure, FactorGraph) else None


def hidden_states(hidden: Any) -> dict[str, tuple[str, ...] | None]:
    """Return hidden variables with their states, None where the structure has them; refuses what is neither."""
    if isinstance(hidden, str):
        hidden = (hidden,)
    if not isinstance(hidden, Mapping):
        if not is_iterable(hidden) or not all(isinstance(name, str) for name in hidden):
            raise ModelError(f"hidden must be names of variables, or names and their states, found {shown(hidden)}")
        return dict.fromkeys(hidden)
    found: dict[str, tuple[str, ...] | None] = {}
    for name, states in hidden.items():
        count = isinstance(states, int | np.integer) and not isinstance(states, bool)
        if not count and not is_iterable(states):
            raise ModelError(
                f"the hidden variable {name!r} needs a number of states, or their names, found {shown(states)}"
            )
        labels = tuple(map(str, range(int(states)))) if count else tuple(map(str, states))
        if not labels:
            raise ModelError(f"the hidden variable {name!r} needs at least one state, found {shown(states)}")
        found[str(name)] = labels
    return found


def structure_over(structure: Any, naming: Naming) -> Structure:
    """Return the structure over these variables: a network's, or from arcs or a mapping of children to parents."""
    network = given_network(structure)
    if network is not None:
        return Structure(network.graph.naming, network.graph.layout)
    parents: list[list[int]] = [[] for _ in range(naming.card.size)]
    for parent, child in _arcs(structure):
        parents[naming.index(child)].append(naming.index(parent))
    return Structure.of_parents(naming, parents)


def _arcs(structure: Any) -> list[tuple[Any, Any]]:
    if isinstance(structure, Mapping):
        found: list[tuple[Any, Any]] = []
        for child, parents in structure.items():
            if not is_iterable(parents):
                raise ModelError(f"structure must have a list of parents of {child!r}, found {shown(parents)}")
            found += [(parent, child) for parent in ([parents] if isinstance(parents, str) else parents)]
        return found
    if hasattr(structure, "edges") and hasattr(structure, "nodes"):
        edges = structure.edges
        structure = list(edges() if callable(edges) else edges)
    arcs = list(structure) if is_iterable(structure) and not isinstance(structure, str) else None
    pairs = arcs is not None and all(isinstance(arc, tuple | list) and len(arc) == 2 for arc in arcs)
    if arcs is None or not pairs:
        raise ModelError(
            f"structure must be a network, arcs (parent, child), a mapping of children to parents, or the name of a "
            f"search, found {shown(structure)}"
        )
    return [(parent, child) for parent, child in arcs]

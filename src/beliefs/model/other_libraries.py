"""Bayesian networks of other libraries: their objects are read by what they answer, so nothing needs to be imported.

pgmpy keeps a table as a matrix, a row a state of the child and a column a state of the parents, the last parent
fastest. pyAgrum's tables name their own axes, the child among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.variable import Variable

__all__ = ["from_pgmpy", "from_pyagrum"]

Tables = dict[str, tuple[list[str], Any]]


def from_pgmpy(model: Any) -> BayesianNetwork:
    """Return the network of a pgmpy object that has a table for every node."""
    _check(model, ("nodes", "get_cpds"), "a Bayesian network of pgmpy")
    variables: list[Variable] = []
    tables: Tables = {}
    for node in model.nodes():
        cpd = model.get_cpds(node)
        if cpd is None:
            raise ModelError(f"the pgmpy network has no table for {node!r}; add_cpds first")
        scope = [str(v) for v in cpd.variables]
        labels = (getattr(cpd, "state_names", None) or {}).get(cpd.variables[0]) or range(int(cpd.cardinality[0]))
        variables.append(Variable(scope[0], [str(label) for label in labels]))
        shape = [int(k) for k in (*cpd.cardinality[1:], cpd.cardinality[0])]
        tables[scope[0]] = (scope[1:], np.asarray(cpd.get_values()).T.reshape(shape))
        _check_parents_labels(cpd, scope, model)
    return BayesianNetwork.from_cpts(variables, tables)


def _check_parents_labels(cpd: Any, scope: list[str], model: Any) -> None:
    """Raise where a table lists a parent's states in another order than the parent's own table."""
    named = getattr(cpd, "state_names", None) or {}
    for parent in cpd.variables[1:]:
        own = model.get_cpds(parent)
        theirs = (getattr(own, "state_names", None) or {}).get(parent)
        if theirs and named.get(parent) and list(theirs) != list(named[parent]):
            raise ModelError(f"the table of {scope[0]!r} lists the states of {str(parent)!r} in an order of its own")


def from_pyagrum(model: Any) -> BayesianNetwork:
    """Return the network of a pyAgrum object."""
    _check(model, ("nodes", "cpt", "variable"), "a Bayesian network of pyAgrum")
    variables: list[Variable] = []
    tables: Tables = {}
    for node in sorted(model.nodes()):
        mine = model.variable(node)
        variables.append(Variable(mine.name(), [str(label) for label in mine.labels()]))
        table = model.cpt(node)
        axes = [str(name) for name in table.names][::-1]  # its arrays have the first named axis last
        parents = [name for name in axes if name != mine.name()]
        order = [axes.index(name) for name in (*parents, mine.name())]
        tables[mine.name()] = (parents, np.transpose(table.toarray(), order))
    return BayesianNetwork.from_cpts(variables, tables)


def _check(model: Any, verbs: tuple[str, ...], what: str) -> None:
    if not all(callable(getattr(model, verb, None)) for verb in verbs):
        raise ModelError(f"expected {what}, found {type(model).__name__}")

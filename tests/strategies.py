"""Hypothesis strategies: small factor graphs of every shape, with evidence, queries, orders and temperatures.

Structure is drawn (and so shrinks); numbers come from a drawn seed. Runs are derandomised: the same examples each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import reference
from beliefs.model import FactorGraph

MAX_STATES = 4096


def examples(n: int) -> Any:
    """Settings of a property test: ``n`` examples, always the same, no deadline (kernels compile on first use)."""
    return settings(max_examples=n, deadline=None, derandomize=True, print_blob=False)


@st.composite
def structures(draw: st.DrawFn, max_vars: int = 6, max_factors: int = 7, max_card: int = 4) -> tuple[list[int], list]:
    """Cardinalities and scopes: any arity up to 4, empty and repeated scopes, isolated variables."""
    n = draw(st.integers(1, max_vars))
    card = draw(st.lists(st.integers(1, max_card), min_size=n, max_size=n))
    scope = st.lists(st.integers(0, n - 1), max_size=min(n, 4), unique=True)
    return card, draw(st.lists(scope, max_size=max_factors))


@st.composite
def factor_graphs(draw: st.DrawFn, zeros: bool = True, scales: tuple[float, ...] = (1.0, 0.0, 30.0)) -> FactorGraph:
    """Factor graphs with possible hard zeros; the joint state 0 always has weight, so Z > 0."""
    card, scopes = draw(structures())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from(scales))
    share = draw(st.sampled_from((0.0, 0.3))) if zeros else 0.0
    tables = []
    for scope in scopes:
        table = scale * rng.normal(size=[card[v] for v in scope])
        hard = np.asarray(rng.random(table.shape) < share)
        hard.flat[0] = False
        tables.append((scope, np.where(hard, -np.inf, table)))
    return FactorGraph.from_tables(card, tables, log=True)


@st.composite
def forests(draw: st.DrawFn) -> FactorGraph:
    """Factor graphs without a cycle: of drawn factors those are kept that close none."""
    graph = draw(factor_graphs())
    tables: list[tuple[tuple[int, ...], np.ndarray]] = []
    card = graph.layout.card
    for f in range(graph.n_factors):
        table = graph.theta[graph.layout.cells(f)].reshape(graph.layout.shape(f))
        more = [*tables, (tuple(int(v) for v in graph.layout.scope(f)), table)]
        if reference.is_forest(FactorGraph.from_tables(card, more, log=True)):
            tables = more
    return FactorGraph.from_tables(card, tables, log=True)


@st.composite
def pairwise_graphs(draw: st.DrawFn, scale: float) -> FactorGraph:
    """Pairwise graphs of one to three states a variable, cycles and repeated edges included."""
    n = draw(st.integers(2, 5))
    card = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    pair = st.lists(st.integers(0, n - 1), min_size=2, max_size=2, unique=True)
    scopes = [*((v,) for v in range(n)), *map(tuple, draw(st.lists(pair, min_size=1, max_size=7)))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tables = [(scope, scale * rng.normal(size=[card[v] for v in scope])) for scope in scopes]
    return FactorGraph.from_tables(card, tables, log=True)


@st.composite
def tied_graphs(draw: st.DrawFn, scale: float = 1.0, chain: bool = False) -> FactorGraph:
    """Pairwise graphs whose edges share one table; with ``chain`` the edges form one."""
    n, k = draw(st.integers(2, 5)), draw(st.integers(2, 3))
    pair = st.lists(st.integers(0, n - 1), min_size=2, max_size=2, unique=True)
    edges = [[v, v + 1] for v in range(n - 1)] if chain else draw(st.lists(pair, min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return FactorGraph.pairwise(rng.normal(size=(n, k)), edges, scale * rng.normal(size=(k, k)))


@st.composite
def subsets(draw: st.DrawFn, n: int) -> list[int]:
    """Some of ``range(n)``, in any order."""
    return draw(st.lists(st.integers(0, n - 1), max_size=n, unique=True)) if n else []


@st.composite
def possible_evidence(draw: st.DrawFn, graph: FactorGraph) -> dict[int, int]:
    """Evidence that leaves the joint state 0 possible."""
    return dict.fromkeys(draw(subsets(graph.n_vars)), 0)


def temperatures(n: int) -> st.SearchStrategy[list[float]]:
    """One temperature a variable: hard maxima, sums, and the powers between and beyond."""
    return st.lists(st.sampled_from([0.0, 1.0, 0.5, 0.1, 2.0, 1.7]), min_size=n, max_size=n)

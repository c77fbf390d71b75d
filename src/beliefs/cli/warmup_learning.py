"""What ``warmup`` does for learning: every loss and every way through inference, on small models of every kind."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from beliefs.model.features import DifferentiableTemplate
from beliefs.model.graph import FactorGraph

__all__ = ["USUAL", "learning_jobs", "usual_learning_jobs"]

USUAL = ("grid", "chain", "graph")
"""Estimators that are fitted most."""

Job = tuple[str, Callable[[], object]]

_MORE = ("trw(rho=0.6)",)  # counting numbers that are given have kernels of their own
_WIDE = 13  # states, so many that gradients of tables wait for one another


def learning_jobs(states: tuple[int, ...]) -> Iterator[Job]:
    """Yield what there is to run, each with its name; ``states``: cardinalities that have kernels of their own."""
    for k in states:
        for tied in (False, True):
            graph = _loop(k, tied)
            kind = f"{k} states{', tied tables' if tied else ''}"
            for method in _reversible():
                yield f"gradients through {method}, {kind}", _through(graph, method)
            yield f"extreme gradients, {kind}", _through(graph.with_theta(300.0 * graph.theta), "bp")
    yield f"gradients through bp, {_WIDE} states", _through(_loop(_WIDE, False), "bp")
    triple = _triple()
    for method in _reversible():
        yield f"gradients through {method}, three variables in a factor", _through(triple, method)
    loop = _loop(2, False)
    exact = {"a loop": loop, "a triple": triple, "extreme values": loop.with_theta(1000.0 * loop.theta)}
    for kind, graph in exact.items():
        yield f"gradients through exact inference, {kind}", _exact(graph)
    yield from _losses(loop)
    yield from _estimators()
    yield "block steps over graphs", _block_steps
    yield "chains", _chains
    yield "chains of named attributes", _attributes
    yield "networks from rows", partial(_rows, (2, 300))
    yield "networks from rows, large families", _sparse_counts
    yield "dense fields from rows", _dense_field


def usual_learning_jobs() -> Iterator[Job]:
    """Yield the fits that are asked for most; in one job, as they share most of what they compile."""
    fits = [run for _, run in _estimators(USUAL)]
    yield "fits of grids, chains and graphs", lambda: [run() for run in fits]
    yield "networks from rows", partial(_rows, (2,))


def _reversible() -> tuple[str, ...]:
    from beliefs.inference.registry import methods

    return (*(method.name for method in methods("infer") if method.derivative.reversible), *_MORE)


def _through(graph: FactorGraph, text: str) -> Callable[[], object]:
    def run() -> None:
        from beliefs.inference.text import parse_method
        from beliefs.learning.gradients import AtConvergence, Truncated

        method = parse_method(text)
        for gradient in (Truncated(method=method, n_sweeps=1), AtConvergence(method=method, max_iters=21)):
            for bars in ((False, True), (True, False)):
                _back(gradient, graph, bars)

    return run


def _exact(graph: FactorGraph) -> Callable[[], object]:
    def run() -> None:
        from beliefs.learning.gradients import Exact

        _back(Exact(), graph, (True, True))

    return run


def _back(gradient: object, graph: FactorGraph, bars: tuple[bool, bool]) -> None:
    """Go forth and back, with gradients in the variables' beliefs, the factors', or both."""
    from beliefs.errors import NotConvergedError
    from beliefs.learning.gradients import Gradient

    assert isinstance(gradient, Gradient)
    beliefs = gradient.run(graph)
    try:
        beliefs.pullback(beliefs.mu_var if bars[0] else None, beliefs.mu_factor if bars[1] else None)
    except NotConvergedError:
        return  # what had to be compiled has been


def _losses(graph: FactorGraph) -> Iterator[Job]:
    from beliefs.inference.messages.trw import TRW
    from beliefs.learning.instances import Instance
    from beliefs.learning.losses.registry import LOSSES, make_loss

    template = DifferentiableTemplate(graph.theta.size, lambda weights, _: weights, lambda _w, _x, grad: grad)
    for cls in LOSSES:
        loss = make_loss(cls.name, template=template, method=TRW(), n_sweeps=2)
        labels = np.zeros((2, graph.n_vars), np.int64)
        labels[1, -1] = -1
        instances = [Instance(graph.layout, None, row) for row in labels[: 2 if cls.hidden else 1]]
        yield f"the loss {cls.name}", partial(loss.value_and_grad, graph.theta, instances)
    counted = make_loss("truncated_likelihood(entropy=counted)", template=template, method=TRW(), n_sweeps=2)
    whole = [Instance(graph.layout, None, np.zeros(graph.n_vars, np.int64))]
    yield "the counted entropy", partial(counted.value_and_grad, graph.theta, whole)


def _estimators(words: tuple[str, ...] | None = None) -> Iterator[Job]:
    """Fit every estimator, or those of some words, to very small data, and ask it."""
    from beliefs.learning.estimators.registry import ESTIMATORS

    for row in ESTIMATORS:
        if words is None or row.word in words:
            yield f"the estimator {row.word}", row.load().warm_up


def _block_steps() -> None:
    """Fit margins graph by graph, which small data is not by default."""
    from beliefs.learning.estimators.structured.graph_svm import GraphSVM

    GraphSVM(max_iters=2, optimizer="bcfw").fit(*GraphSVM.tiny_data())


def _chains() -> None:
    """Fit and ask chains of arrays, with and without hidden labels, in plain numbers and in logs."""
    from beliefs.learning.estimators.structured.chain import ChainCRF
    from beliefs.learning.estimators.structured.chain_svm import ChainSVM

    rng = np.random.default_rng(0)
    for optimizer in ("bcfw", "one_slack", "n_slack"):
        ChainSVM(max_iters=2, optimizer=optimizer).fit(*ChainSVM.tiny_data())
    for eps_y in (0.0, 0.5):
        ChainSVM(max_iters=1, eps_y=eps_y).fit([rng.normal(size=(4, 3))], [np.array([-1, 0, -1, 1])])
    for k in (2, 5):
        X, Y = [rng.normal(size=(n, 3)) for n in (1, 4, 6)], [np.arange(n) % k for n in (1, 4, 6)]
        Y[1] = np.full(4, -1)
        crf = ChainCRF(max_iters=2, n_states=k, n_jobs=2).fit(X, Y)
        for scale in (1.0, 1e6):
            for decode in ("mpm", "map"):
                crf.predict([scale * x for x in X], decode=decode)
        crf.sample(X, 2)


def _attributes() -> None:
    """Fit chains of dictionaries and of sets of words."""
    from beliefs.learning.estimators.structured.chain import ChainCRF
    from beliefs.learning.estimators.structured.chain_svm import ChainSVM

    X, Y = [[{"word": "a", "n": 0.5}, {"word": "b"}], [["a", "c"], ["b"]]], [["x", "y"], ["y", "x"]]
    crf = ChainCRF(max_iters=2, n_jobs=2).fit(X, Y)
    crf.predict(X)
    ChainSVM(max_iters=2, optimizer="bcfw").fit(X, Y)


def _rows(tops: tuple[int, ...]) -> None:
    """Count rows, complete and with holes, and score them; up to 255 in a byte a cell, beyond in two."""
    from beliefs.learning.estimators.networks.bayes_net import BNLearner

    for top in tops:
        rows = np.arange(24).reshape(8, 3) % 2
        rows[0, 0] = top
        for holes in (False, True):
            rows[1, 1] = -1 if holes else 0
            learner = BNLearner([("x0", "x1"), ("x1", "x2")], max_iters=1).fit(rows)
            learner.score(rows)
            learner.predict(rows)


def _sparse_counts() -> None:
    """Count a family of so many cells that its counts are sparse."""
    from beliefs.learning.estimators.networks.bayes_net import BNLearner

    many = np.repeat(np.arange(13)[:, None], 4, axis=1)
    BNLearner([("x0", "x3"), ("x1", "x3"), ("x2", "x3")], max_iters=1).fit(many)


def _dense_field() -> None:
    """Fit a field with more blankets than rows, whose rows are matrices."""
    from beliefs.learning.estimators.networks.markov_field import MRFLearner

    pairs = list(itertools.combinations([f"x{k}" for k in range(12)], 2))
    bits = np.random.default_rng(0).integers(0, 2, (40, 12))
    MRFLearner(pairs, method="pseudo_likelihood", l2=0.1, max_iters=1).fit(bits)


def _loop(states: int, tied: bool) -> FactorGraph:
    rng = np.random.default_rng(0)
    edges = np.array([(0, 1), (1, 2), (2, 3), (0, 3)])
    tables = rng.normal(size=(states, states) if tied else (4, states, states))
    return FactorGraph.pairwise(rng.normal(size=(4, states)), edges, tables)


def _triple() -> FactorGraph:
    rng = np.random.default_rng(0)
    scopes = [(0,), (1,), (0, 1), (1, 2, 3), (0, 3)]
    card = [2, 3, 2, 2]
    tables = [(scope, rng.normal(size=[card[v] for v in scope])) for scope in scopes]
    return FactorGraph.from_tables(card, tables, log=True)

"""What is written reads back: random models of every shape through every format."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefs.io import bif, fg, npz, uai, wcsp, xmlbif
from beliefs.model import BayesianNetwork, FactorGraph, Variable
from strategies import examples, factor_graphs, possible_evidence, tied_graphs

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=6)


def all_scores(graph: FactorGraph) -> np.ndarray:
    states = list(product(*map(range, graph.layout.card.tolist())))
    return graph.log_scores(np.array(states, np.int64).reshape(-1, graph.n_vars))


@st.composite
def networks(draw: st.DrawFn, words: st.SearchStrategy[str] = WORDS) -> BayesianNetwork:
    """Bayesian networks with any names and labels, and columns as close to one as rounding leaves them."""
    names = draw(st.lists(words, min_size=1, max_size=5, unique=True))
    variables = [Variable(name, draw(st.lists(words, min_size=1, max_size=4, unique=True))) for name in names]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    position = rng.permutation(len(names))
    digits = draw(st.integers(5, 17))
    cpts = {}
    for v, variable in enumerate(variables):
        earlier = [u for u in range(len(names)) if position[u] < position[v]]
        parents = [names[u] for u in earlier if rng.random() < 0.6][:3]
        shape = [variables[names.index(p)].card for p in parents] + [variable.card]
        table = rng.dirichlet(np.full(variable.card, 0.3), size=shape[:-1]).round(digits)
        cpts[variable.name] = (parents, table)
    return BayesianNetwork.from_cpts(variables, cpts)


def same_network(a: BayesianNetwork, b: BayesianNetwork) -> bool:
    return (
        list(a.variables) == list(b.variables)
        and a.graph.layout.equals(b.graph.layout)
        and a.probabilities.tobytes() == b.probabilities.tobytes()
        and a.graph.theta.tobytes() == b.graph.theta.tobytes()
    )


@examples(150)
@given(factor_graphs(scales=(1.0, 0.0, 1e-9, 300.0, 1e5)))
def test_logarithms_keep_every_bit(graph: FactorGraph) -> None:
    again = uai.loads(uai.dumps(graph, log=True), log=True)
    assert again.layout.equals(graph.layout)
    assert again.theta.tobytes() == graph.theta.tobytes()


@examples(150)
@given(factor_graphs(scales=(1.0, 0.0, 1e-9, 100.0)))
def test_potentials_are_stable_after_the_first_file(graph: FactorGraph) -> None:
    """The first file may move a log potential by a rounding of its exponential; from then on nothing moves."""
    first = uai.loads(uai.dumps(graph))
    assert first.layout.equals(graph.layout)
    assert np.array_equal(first.theta == -np.inf, graph.theta == -np.inf)
    finite = graph.theta > -np.inf
    assert np.allclose(first.theta[finite], graph.theta[finite], rtol=1e-15, atol=3e-16)
    text = uai.dumps(first)
    assert uai.loads(text).theta.tobytes() == first.theta.tobytes()
    assert uai.dumps(uai.loads(text)) == text


@examples(100)
@given(st.data())
def test_evidence_is_part_of_what_is_written(data: st.DataObject) -> None:
    graph = data.draw(st.one_of(factor_graphs(scales=(1.0,)), tied_graphs()))
    conditioned = graph.condition(data.draw(possible_evidence(graph)))
    for module in (uai, fg, npz):
        again = module.loads(module.dumps(conditioned))
        assert np.allclose(all_scores(again), all_scores(conditioned), rtol=1e-14, atol=1e-14)


@examples(150)
@given(factor_graphs(scales=(1.0, 0.0, 100.0)))
def test_factor_graphs_of_libdai(graph: FactorGraph) -> None:
    again = fg.loads(fg.dumps(graph))
    assert np.allclose(all_scores(again), all_scores(graph), rtol=1e-14, atol=1e-14)
    assert fg.loads(fg.dumps(again)).theta.tobytes() == again.theta.tobytes()


@examples(150)
@given(factor_graphs(scales=(1.0, 0.0, 30.0)))
def test_integer_costs(graph: FactorGraph) -> None:
    again = wcsp.loads(wcsp.dumps(graph))
    tolerance = (graph.n_factors + 1) * 0.5 / wcsp.MULTIPLIER
    assert np.allclose(all_scores(again), all_scores(graph), rtol=1e-12, atol=tolerance)
    assert np.array_equal(all_scores(again) == -np.inf, all_scores(graph) == -np.inf)


@examples(150)
@given(st.one_of(factor_graphs(scales=(1.0, 1e5)), tied_graphs(), networks()))
def test_the_archive_keeps_everything(model: Any) -> None:
    data = npz.dumps(model)
    again: Any = npz.loads(data)
    assert type(again) is type(model)
    assert again.to_factor_graph().theta.tobytes() == model.to_factor_graph().theta.tobytes()
    assert npz.dumps(again) == data


@examples(200)
@given(networks(WORDS.filter(lambda word: '"' not in word)))
def test_bif(network: BayesianNetwork) -> None:
    assert same_network(bif.loads(bif.dumps(network)), network)


@examples(200)
@given(networks(WORDS.filter(lambda word: word == word.strip() and word.isprintable())))
def test_xmlbif(network: BayesianNetwork) -> None:
    assert same_network(xmlbif.loads(xmlbif.dumps(network)), network)


@examples(50)
@given(networks())
def test_networks_as_uai(network: BayesianNetwork) -> None:
    again = uai.loads(uai.dumps(network))
    assert again.kind == "BAYES"
    assert again.layout.equals(network.graph.layout)
    assert again.theta.tobytes() == network.graph.theta.tobytes()


@pytest.mark.parametrize("module", [bif, xmlbif])
def test_a_network_read_from_uai_keeps_its_numbers(module: Any) -> None:
    graph = uai.loads("BAYES 2  2 3  2  1 0  2 0 1  2 .1 .9  6 .2 .3 .5 .123456789 .7 .176543211")
    numbers = module.loads(module.dumps(graph)).probabilities.tolist()
    assert numbers == [0.1, 0.9, 0.2, 0.3, 0.5, 0.123456789, 0.7, 0.176543211]

"""Models as collections of names, and what is said to those who build or ask them in another library's way."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beliefs
from beliefs.errors import ModelError

bl: Any = beliefs  # what is typed here is wrong, or looser than its annotations


@pytest.fixture(params=["network", "graph", "conditioned", "unnamed"])
def model(request):
    network = bl.datasets.load_bn("asia")
    if request.param == "unnamed":
        return bl.FactorGraph.from_tables([2, 3], [((0, 1), np.ones((2, 3)))])
    made = {"network": network, "graph": network.to_factor_graph(), "conditioned": network.condition({"smoke": "yes"})}
    return made[request.param]


def test_a_model_is_a_collection_of_the_names_of_its_variables(model):
    names = [v.name for v in model.variables]
    assert list(model) == names and model.names == tuple(names)
    assert len(model) == model.n_vars == len(names)
    assert all(name in model and name in model.variables for name in names)
    assert model.variables[0] in model and names[-1] == model.variables[names[-1]].name
    assert "nobody" not in model and "nobody" not in model.variables and 0 not in model
    assert [model.states(name) for name in model] == [v.states for v in model.variables]
    assert all(again == model for again in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))))


def test_a_model_without_variables_is_still_a_model():
    empty = bl.FactorGraph.from_tables([], [])
    assert len(empty) == 0 and list(empty) == [] and empty


def test_children_are_the_other_ends_of_arcs():
    network = bl.datasets.load_bn("asia")
    assert network.children("smoke") == ("lung", "bronc") and network.children("dysp") == ()
    for child in network:
        assert all(child in network.children(parent) for parent in network.parents(child))


def test_lists_of_variables_and_factors_show_what_is_in_them():
    graph = bl.datasets.load_bn("asia").to_factor_graph()
    assert repr(graph.variables[:1]) == "[Variable('asia', ['yes', 'no'])]"
    assert repr(graph.variables) == repr(graph.variables[:8])
    assert repr(bl.datasets.make_ising_grid(4, seed=0).variables).endswith(", ... 6 more]")
    with pytest.raises(ModelError, match=r"^factors are counted from 0, found 'asia'$"):
        graph.factors["asia"]
    with pytest.raises(IndexError, match=r"^no number 99: the model has 8 factors$"):
        graph.factors[99]
    assert graph.variables[-1].name == "dysp"


@pytest.mark.parametrize("labels", [["yes", "no"], ["no", "yes"], ["FALSE", "TRUE"], ["True", "False"]])
@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_booleans_are_the_states_that_say_so_whatever_their_order(labels, kind):
    graph = bl.FactorGraph.from_tables([2], [((0,), [0.25, 0.75])], names=["a"], states=[labels])
    for value in (False, True):
        words = ("yes", "true") if value else ("no", "false")
        expected = next(k for k, label in enumerate(labels) if label.lower() in words)
        assert graph.condition({"a": kind(value)}).evidence == {0: expected}
        rows = bl.infer_many(graph, [{"a": kind(value)}])
        assert rows.log_z[0] == bl.infer_many(graph, [{"a": labels[expected]}]).log_z[0]


def test_booleans_are_indices_where_no_state_says_so():
    graph = bl.FactorGraph.from_tables([2], [((0,), [0.25, 0.75])], names=["a"], states=[["low", "high"]])
    assert graph.condition({"a": True}).evidence == {0: 1}


def test_tables_may_be_a_mapping_and_scopes_may_be_names():
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    plain = bl.FactorGraph.from_tables([2, 2], [((0, 1), table)], names=["a", "b"])
    assert bl.FactorGraph.from_tables([2, 2], {("a", "b"): table}, names=["a", "b"]) == plain
    assert bl.FactorGraph.from_tables([2, 2], [(["a", 1], table)], names=["a", "b"]) == plain


NETWORK = bl.datasets.load_bn("asia")
SMOKE = bl.Variable("smoke", ["yes", "no"])
REFUSED = [
    (lambda: bl.FactorGraph(), TypeError, "not called directly; build one by FactorGraph.from_factors,"),
    (lambda: bl.BayesianNetwork([("a", "b")]), TypeError, "build one by BayesianNetwork.from_cpts,"),
    (
        lambda: bl.FactorGraph.from_tables([2], [(0, [1, 2])]),
        ModelError,
        "factor 0 must be a pair .* scope a list",
    ),
    (lambda: bl.FactorGraph.from_tables([2], [0]), ModelError, r"factor 0 must be a pair \(scope, table\)"),
    (lambda: bl.FactorGraph.from_tables([2], [((0,), None)]), ModelError, "an array of numbers, found None"),
    (lambda: bl.FactorGraph.from_tables([2], [(("a",), [1, 2])]), ModelError, "names 'a', .* give names="),
    (
        lambda: bl.FactorGraph.from_tables([2], [(("Rian",), [1, 2])], names=["Rain"]),
        ModelError,
        "factor 0 names 'Rian', which is no variable; did you mean 'Rain'",
    ),
    (
        lambda: bl.BayesianNetwork.from_cpts([SMOKE], {"smoke": [0.5, 0.5]}),
        ModelError,
        r"table of 'smoke' is given as \(list of parents, table\), found \[0.5, 0.5\]",
    ),
    (lambda: bl.infer("asia"), ModelError, r"found str; a file is read by read\(path\), a bundled network by"),
    (lambda: bl.infer(Path("asia.bif")), ModelError, "found PosixPath; a file is read by|found WindowsPath; a file"),
    (lambda: bl.infer(NETWORK, bl.BP), ModelError, r"found the class BP; write BP\(\)$"),
    (lambda: bl.infer(NETWORK, "BP"), ModelError, "no method 'BP'; did you mean 'bp'"),
    (lambda: bl.infer(NETWORK, "junction tree"), ModelError, "did you mean 'junction_tree'"),
    (lambda: bl.infer(NETWORK, target=["smoke"]), TypeError, "no keyword 'target'; did you mean 'targets'; options"),
    (lambda: bl.infer(NETWORK, evidence="smoke=yes"), ModelError, 'found str; write {"variable": "state"}'),
    (lambda: bl.infer(NETWORK, evidence=[{"smoke": 1}]), ModelError, "found list; infer_many takes rows"),
    (lambda: bl.infer(NETWORK, evidence={"smoke": "Yes"}), ModelError, "no state 'Yes'; did you mean 'yes'"),
    (lambda: bl.infer(NETWORK, evidence={"smoke": [0.5, 0.5]}), ModelError, "with_likelihood takes one number a state"),
    (
        lambda: bl.infer_many(NETWORK, None),
        ModelError,
        "rows must .* found NoneType",
    ),
    (lambda: bl.infer_many(NETWORK, []), ModelError, "there are no rows"),
    (lambda: bl.BP(0.3), TypeError, "BP takes its options by name, option=value; it has damping"),
    (lambda: bl.read("asia"), ValueError, r"a bundled network is loaded by datasets.load_bn\('asia'\)"),
    (lambda: bl.read(None), ValueError, r"given by its path \(str or Path\), found NoneType"),
    (lambda: bl.read(io.StringIO("BAYES")), ValueError, r"given by its path \(str or Path\), found StringIO"),
    (lambda: bl.BayesNet, AttributeError, "no attribute 'BayesNet'; here it is BayesianNetwork$"),
    (lambda: bl.infers, AttributeError, "no attribute 'infers'; did you mean 'infer'"),
]


@pytest.mark.parametrize(("ask", "kind", "words"), REFUSED)
def test_what_newcomers_type_is_answered_by_what_to_write(ask, kind, words):
    with pytest.raises(kind, match=words) as caught:
        ask()
    assert "\n" not in str(caught.value)


def test_a_frame_as_evidence_is_sent_to_infer_many():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ModelError, match=r"found DataFrame; infer_many takes rows of evidence$"):
        bl.infer(NETWORK, evidence=pandas.DataFrame({"smoke": ["yes", "no"]}))


def test_networks_of_other_libraries_are_told_how_to_come_in():
    models = pytest.importorskip("pgmpy.models")
    with pytest.raises(ModelError, match=r"BayesianNetwork.from_pgmpy makes one of it$"):
        bl.infer(models.DiscreteBayesianNetwork([("a", "b")]))

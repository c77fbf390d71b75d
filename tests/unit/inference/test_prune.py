"""Targets: barren variables of a Bayesian network are left out, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.prune import prune_barren
from families import family, sprinkler

METHODS = [cls.name for cls in bl.methods(task="infer") if cls.general]
BN = sprinkler()  # Cloudy -> Sprinkler, Rain -> Grass -> Slip


def pruned_names(graph: bl.FactorGraph, *targets: str) -> set[str]:
    _, mask, _ = prune_barren(graph, np.array([graph.index(t) for t in targets], np.int64))
    return {graph.variables[int(v)].name for v in np.flatnonzero(mask)}


def test_what_is_below_neither_targets_nor_evidence_is_barren() -> None:
    assert pruned_names(BN.graph, "Rain") == {"Slip", "Grass", "Sprinkler"}
    assert pruned_names(BN.graph, "Cloudy") == {"Slip", "Grass", "Sprinkler", "Rain"}
    assert pruned_names(BN.graph, "Grass") == {"Slip"}
    assert pruned_names(BN.graph, "Slip") == set()


def test_evidence_keeps_its_ancestors() -> None:
    assert pruned_names(BN.condition({"Slip": "yes"}), "Cloudy") == set()
    assert pruned_names(BN.condition({"Grass": "wet"}), "Cloudy") == {"Slip"}
    assert pruned_names(BN.condition({"Cloudy": "no"}), "Rain") == {"Slip", "Grass", "Sprinkler"}


def test_soft_evidence_keeps_its_variable() -> None:
    assert pruned_names(BN.graph.with_likelihood({"Slip": [0.3, 0.9]}), "Cloudy") == set()


def test_only_conditional_tables_that_sum_to_one_are_dropped() -> None:
    """Columns may be off by 1e-4; leaving such a table out would change log Z."""
    sloppy = bl.BayesianNetwork.from_cpts(
        [bl.Variable("a", 2), bl.Variable("b", 2)],
        {"a": ([], [0.5, 0.5]), "b": (["a"], [[0.50005, 0.5], [0.5, 0.5]])},
    )
    assert pruned_names(sloppy.graph, "a") == set()
    assert bl.infer(sloppy, targets=["a"]).log_z == bl.infer(sloppy).log_z


def test_what_is_left_is_planned_once_for_all_evidence_on_the_same_variables() -> None:
    rain = np.array([BN.index("Rain")], np.int64)
    wet, damp = (prune_barren(BN.condition({"Sprinkler": state}), rain)[0] for state in ("yes", "no"))
    assert wet.layout is damp.layout and not np.array_equal(wet.theta, damp.theta)
    assert prune_barren(BN.condition({"Sprinkler": "yes"}), np.array([BN.index("Cloudy")], np.int64))[0] is not wet
    bl.infer(BN.condition({"Sprinkler": "yes"}), targets=["Rain"])
    plans = len(wet.layout._plans)
    bl.infer(BN.condition({"Sprinkler": "no"}), targets=["Rain"])
    assert len(wet.layout._plans) == plans > 0


def test_tables_are_judged_before_evidence() -> None:
    graph = BN.condition({"Cloudy": "no"}).condition({"Grass": "wet"})
    assert graph.without_evidence is BN.graph and graph.normalised is BN.graph.normalised and BN.graph.normalised.all()
    assert not BN.graph.with_theta(BN.graph.theta).normalised.any()


def test_a_plain_factor_graph_is_never_pruned() -> None:
    graph = family("chain")
    whole = bl.infer(graph, targets=[0])
    assert not whole.pruned.any() and whole.marginal(5) == pytest.approx(bl.infer(graph).marginal(5))
    assert pruned_names(BN.graph.with_theta(BN.graph.theta), "Cloudy") == set()


@pytest.mark.parametrize("seen", [{}, {"Sprinkler": "yes"}, {"Grass": "damp", "Slip": "no"}], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_log_z_and_the_wanted_marginals_do_not_change(method: str, seen: dict[str, str]) -> None:
    graph = BN.condition(seen)
    whole = bl.infer(graph, "enumeration")
    for name in ("Cloudy", "Rain", "Sprinkler"):
        part = bl.infer(graph, method, targets=[name])
        if part.bound is bl.Bound.EXACT:
            assert part.log_z == pytest.approx(whole.log_z, abs=1e-12)
            assert part.marginal(name) == pytest.approx(whole.marginal(name), abs=1e-12)
        assert part.log_lower - 1e-12 <= whole.log_z <= part.log_upper + 1e-12
        assert part.graph is graph and part.mu_var.shape == whole.mu_var.shape


def test_what_was_left_out_is_not_impossible() -> None:
    graph = BN.condition({"Sprinkler": "yes"})
    for method in ("trw(schedule=flooding)", "trw(schedule=flooding, rho=sampled)"):
        part = bl.infer(graph, method, targets=["Grass"])
        assert part.bound is bl.Bound.UPPER and part.pruned.any()
        assert bl.infer(graph).log_z <= part.log_z < 1.0


@pytest.mark.parametrize("method", METHODS)
def test_what_was_left_out_is_not_answered(method: str) -> None:
    result = bl.infer(BN, method, targets=["Rain"])
    for ask in (
        lambda: result.marginal("Slip"),
        lambda: result.marginal(["Rain", "Slip"]),
        lambda: result.entropy("Grass"),
        lambda: result.factor_marginal(BN.index("Grass")),
    ):
        with pytest.raises(
            bl.UnsupportedError, match="the marginal of '(Slip|Grass|Sprinkler)' was not computed; add it to targets"
        ):
            ask()
    for whole in (result.mpm, result.mean, lambda: result.mu):
        with pytest.raises(bl.UnsupportedError, match="infer without targets"):
            whole()
    assert result.factor_marginal(BN.index("Rain")).shape == (2, 2)
    if result.bound is bl.Bound.EXACT:
        assert result.factor_marginal(BN.index("Rain")) == pytest.approx(np.array([[0.4, 0.1], [0.1, 0.4]]))
    left_out = np.repeat(result.pruned, BN.graph.layout.card)
    assert (result.mu_var[left_out] == 0).all() and (result.mu_var[~left_out] > 0).all()


def test_joint_marginals_of_what_was_kept() -> None:
    """Sprinkler and Rain meet only in Grass's table, which is gone."""
    part, whole = bl.infer(BN, targets=["Rain", "Sprinkler"]), bl.infer(BN)
    assert part.pruned.sum() == 2
    np.testing.assert_allclose(part.marginal(["Rain", "Sprinkler"]), whole.marginal(["Rain", "Sprinkler"]), rtol=1e-12)
    assert part.mutual_information("Rain", "Sprinkler") == pytest.approx(
        whole.mutual_information("Rain", "Sprinkler"), abs=1e-12
    )


def test_an_observed_target_is_a_point_mass() -> None:
    assert bl.infer(BN.condition({"Rain": 1}), targets=["Rain"]).marginal("Rain").tolist() == [0, 1]


def test_no_targets_ask_for_the_probability_of_the_evidence_alone() -> None:
    result = bl.infer(BN.condition({"Grass": 0}), targets=[])
    assert result.log_z == pytest.approx(bl.infer(BN.condition({"Grass": 0})).log_z)
    assert bl.infer(BN, targets=[]).log_z == 0 and bl.infer(BN, targets=[]).pruned.all()


def test_pruning_makes_a_hard_network_easy() -> None:
    """Twenty roots with one common child: 2^21 cells, unless the child is barren."""
    n = 20
    roots = [bl.Variable(f"r{k}", 2) for k in range(n)]
    sink = bl.Variable("sink", 2)
    cpts: dict[str, tuple[list[str], Any]] = {r.name: ([], [0.25, 0.75]) for r in roots}
    cpts["sink"] = [r.name for r in roots], np.full(2**n * 2, 0.5)
    bn = bl.BayesianNetwork.from_cpts([*roots, sink], cpts)
    result = bl.infer(bn, "junction_tree", targets=["r3"], max_bytes=10_000)
    assert result.marginal("r3") == pytest.approx([0.25, 0.75])

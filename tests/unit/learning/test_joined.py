"""Small instances evaluated together: the same losses, gradients, flags and errors as one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import ModelError
from beliefs.inference.messages.schedule import is_forest
from beliefs.learning.independent import Independent
from beliefs.learning.instances import Instance
from beliefs.learning.joined import Joined, Joiner, part_by_part
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.registry import LOSSES, make_loss
from beliefs.model.features import FactorType, LogLinearTemplate, Rows
from beliefs.model.layout import Layout
from families import grid_pairs

SINGLE = [cls.name for cls in LOSSES if cls.stochastic] + ["saddle_point", "max_margin"]
METHODS = [
    bl.TRW(),
    bl.BP(),
    bl.FractionalBP(),
    bl.MeanField(),
    bl.TRW(schedule="color_or_tree"),
    bl.BP(schedule="sequential"),
]


def ring(n: int, *chords: tuple[int, int]) -> list[tuple[int, int]]:
    return [(v, (v + 1) % n) for v in range(n)] + list(chords)


SHAPES: dict[str, tuple[int, Any]] = {
    "ring": (8, ring(8, (0, 4), (1, 6))),
    "grid": (9, grid_pairs(3, 3)),
    "other ring": (6, ring(6, (0, 3))),
    "chain": (5, [(v, v + 1) for v in range(4)]),
    "tree": (6, [(0, 1), (0, 2), (2, 3), (2, 4), (4, 5)]),
    "alone": (2, []),
}


def template(states: int, tied: bool) -> LogLinearTemplate:
    return LogLinearTemplate([FactorType("node", states, 3), FactorType("pair", states**2, 1 if tied else 2)])


def instance(shape: str, states: int, tied: bool, seed: int, hidden: int = 0, weight: float = 1.0) -> Instance:
    n, edges = SHAPES[shape]
    rng, m = np.random.default_rng(seed), len(edges)
    ptr = np.concatenate([np.arange(n), n + 2 * np.arange(m + 1)])
    starts = np.concatenate([states * np.arange(n), states * n + (np.zeros(m) if tied else states**2 * np.arange(m))])
    scopes = np.concatenate([np.arange(n), np.array(edges, int).ravel()])
    layout = Layout.build(np.full(n, states), ptr, scopes, starts.astype(int))
    pairs = Rows(m) if tied else Rows(m, rng.normal(size=(m, 2)))
    labels = rng.integers(states, size=n)
    labels[rng.permutation(n)[:hidden]] = -1
    return Instance(layout, (Rows(n, rng.normal(size=(n, 3))), pairs), labels, weight, name=f"instance {seed}")


def several(states: int, tied: bool, shapes: list[str] | None = None, **options: Any) -> list[Instance]:
    names = shapes or [name for name in SHAPES for _ in range(3)]
    return [instance(shape, states, tied, seed, **options) for seed, shape in enumerate(names)]


def loss_of(name: str, states: int, tied: bool, method: bl.Method = METHODS[0], **options: Any) -> Loss:
    settings = {"n_sweeps": 3} | options
    if name == "independent":
        return Independent(template=template(states, tied))
    return make_loss(name, template=template(states, tied), method=method, tol=1e-12, **settings)


def weights_for(loss: Loss, scale: float = 0.5) -> np.ndarray:
    return scale * np.random.default_rng(3).normal(size=loss.template.n_weights)


def frustrated(loss: Loss, strength: float = 3.0) -> np.ndarray:
    """Weights under which neighbours repel each other, so that messages on some rings do not settle."""
    weights = weights_for(loss, 1.0)
    weights[-4:] = strength * np.array([-1.0, 1.0, 1.0, -1.0])
    return weights


def one_by_one(loss: Loss, weights: np.ndarray, instances: list[Instance]) -> tuple[float, np.ndarray, int, int]:
    """The loss from evaluations of single instances, and their flags."""
    value, grad, count, diverged, waiting = 0.0, np.zeros(weights.size), 0.0, 0, 0
    for one in instances:
        found, n = loss.evaluate(weights, [one]), one.weight * one.n_labelled
        value, grad, count = value + n * found.value, grad + n * found.grad, count + n
        diverged, waiting = diverged + found.n_diverged, waiting + found.n_not_converged
    return value / count, grad / count, diverged, waiting


def assert_joined(loss: Loss, instances: list[Instance], tolerance: float = 1e-12) -> None:
    weights = weights_for(loss)
    joiner = Joiner.of(loss)
    assert joiner is not None
    units = list(joiner.units(instances))
    assert sum(unit.n_parts for unit in units) == len(instances) and len(units) <= len(instances) // 2
    value, grad, diverged, waiting = one_by_one(loss, weights, [replace(one) for one in instances])
    for found in (loss.evaluate(weights, instances), loss.evaluate(weights, iter(instances))):
        assert found.value == pytest.approx(value, rel=tolerance, abs=tolerance)
        np.testing.assert_allclose(found.grad, grad, rtol=0, atol=tolerance)
        assert (found.n_instances, found.n_diverged, found.n_not_converged) == (len(instances), diverged, waiting)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("states", [2, 3])
@pytest.mark.parametrize("name", ["independent", *(cls.name for cls in LOSSES if cls.name not in SINGLE)])
def test_a_loss_of_joined_instances_is_that_of_the_instances(name: str, states: int, tied: bool) -> None:
    converging = name.startswith("surrogate")
    instances = several(states, tied)
    assert_joined(loss_of(name, states, tied), instances, 1e-9 if converging else 1e-12)


@pytest.mark.parametrize("name", ["univariate_logistic", "clique_logistic", "truncated_likelihood", "truncated_em"])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_number_of_sweeps_of_any_method(method: bl.Method, name: str) -> None:
    assert_joined(loss_of(name, 3, True, method), several(3, True))


@pytest.mark.parametrize("gradient", ["convergence(tol=1e-12)", "exact"])
def test_marginals_at_convergence_and_exact_ones(gradient: str) -> None:
    loss = loss_of("clique_logistic", 2, True, gradient=gradient, n_sweeps=None)
    assert_joined(loss, several(2, True), 1e-9)


@pytest.mark.parametrize("method", [bl.TRW(), bl.MeanField()], ids=repr)
@pytest.mark.parametrize("name", [cls.name for cls in LOSSES if cls.hidden and cls.name not in SINGLE])
def test_hidden_labels(name: str, method: bl.Method) -> None:
    shapes = [shape for shape in ("ring", "grid", "chain") for _ in range(4)]
    loss = loss_of(name, 2, True, method)
    hidden = 1 if name == "m3e" else 2  # those that share no factor
    assert_joined(loss, several(2, True, shapes, hidden=hidden), 1e-8 if name.startswith("surrogate") else 1e-12)


@pytest.mark.parametrize("name", ["clique_logistic", "pseudo_likelihood", "likelihood", "piecewise"])
def test_weights_of_instances_and_of_labels(name: str) -> None:
    loss = loss_of(name, 3, True)
    instances = [replace(one, weight=0.5 + k % 2) for k, one in enumerate(several(3, True, ["ring"] * 12))]
    if loss.by_variable:
        instances += [
            replace(one, label_weights=np.random.default_rng(k).uniform(size=one.labels.size))
            for k, one in enumerate(several(3, True, ["other ring"] * 6))
        ]
    assert_joined(loss, instances)


def test_messages_of_a_part_are_to_the_byte_those_it_has_alone() -> None:
    loss: Any = loss_of("clique_logistic", 3, True, bl.TRW(schedule="color_or_tree"))
    joiner, weights = Joiner.of(loss), weights_for(loss)
    assert joiner is not None
    for union in joiner.units(several(3, True)):
        whole = loss.through.run(union.graph(loss.template.theta(weights, union.inputs)))
        parts = union.parts if isinstance(union, Joined) else (union,)
        runs = [loss.through.run(one.graph(loss.template.theta(weights, one.inputs))) for one in parts]
        np.testing.assert_array_equal(whole.mu_var, np.concatenate([run.mu_var for run in runs]))
        np.testing.assert_array_equal(whole.mu_factor, np.concatenate([run.mu_factor for run in runs]))
        np.testing.assert_array_equal(whole.rho, np.concatenate([run.rho for run in runs]))


@pytest.mark.parametrize("name", ["clique_logistic", "surrogate_likelihood", "pseudo_likelihood"])
def test_threads_change_no_byte_and_repeats_are_allowed(name: str) -> None:
    found = []
    for threads in (1, 2, 3):
        loss = loss_of(name, 2, True, threads=threads)
        instances = [one for one in several(2, True, ["ring", "grid", "chain"] * 200) for _ in (0, 1)]
        weights = weights_for(loss)
        found.append([loss.value_and_grad(scale * weights, instances) for scale in (0.5, 1.0)])
    for other in found[1:]:
        for (value, grad), (same, like) in zip(found[0], other, strict=True):
            assert value == same
            np.testing.assert_array_equal(grad, like)


# -- what is not joined -------------------------------------------------------------------------------------------
def test_only_inference_that_takes_a_union_as_its_parts_is_joined() -> None:
    assert (
        all(part_by_part((method,)) for method in METHODS) and part_by_part(()) and part_by_part((bl.JunctionTree(),))
    )
    for method in (
        bl.TRW(rho="optimized"), bl.TRW(rho=np.ones(3)), bl.BP(schedule="residual"), bl.BP(order=[0]), bl.Gibbs(),
        bl.MeanField(restarts=1), bl.MeanField(structure="tree"), bl.GDD(),
    ):  # fmt: skip
        assert not part_by_part((method,))
    for name in SINGLE:
        assert Joiner.of(loss_of(name, 2, True)) is None
    assert Joiner.of(loss_of("clique_logistic", 2, True, gradient="perturbation", n_sweeps=None)) is None


def test_forests_are_not_joined_with_graphs_whose_messages_take_another_schedule() -> None:
    joiner = Joiner.of(loss_of("clique_logistic", 2, True))
    assert joiner is not None
    for unit in joiner.units(several(2, True)):
        parts = unit.parts if isinstance(unit, Joined) else (unit,)
        assert len({part.name in ("chain", "tree", "alone") for part in parts}) == 1
        assert len({is_forest(part.layout) for part in parts}) == 1


def test_large_instances_stay_alone_and_unions_are_bounded() -> None:
    joiner = Joiner.of(loss_of("clique_logistic", 2, True))
    assert joiner is not None
    units = list(joiner.units(several(2, True, ["grid"] * 1000)))
    assert len(units) > 2 and max(int(unit.layout.table_ptr[-1]) for unit in units) <= 2**14
    assert len({id(unit.layout) for unit in units[:-1]}) == len(units) - 1  # layouts of these instances differ
    shared = several(2, True, ["grid"])[0].layout
    units = list(joiner.units([replace(one, layout=shared) for one in several(2, True, ["grid"] * 1000)]))
    assert len({id(unit.layout) for unit in units[:-1]}) == 1


# -- flags and errors ---------------------------------------------------------------------------------------------
def test_an_instance_that_fails_is_named_and_others_go_on() -> None:
    loss = loss_of("truncated_likelihood", 2, True)
    instances = several(2, True, ["ring"] * 10)
    bad = instances[6].labels.copy()
    bad[3] = -1
    with pytest.raises(ModelError, match="instance 6: variable 3 has no label"):
        loss.evaluate(weights_for(loss), [*instances[:6], replace(instances[6], labels=bad), *instances[7:]])


def test_instances_that_do_not_converge_are_counted_one_by_one() -> None:
    loss = loss_of("surrogate_likelihood(max_iters=60)", 2, True, bl.BP())
    instances, weights = several(2, True, ["ring"] * 12), frustrated(loss)
    value, _, diverged, waiting = one_by_one(loss, weights, [replace(one) for one in instances])
    assert 0 < waiting < 12
    for _ in range(4):  # also while the union is left apart
        found = loss.evaluate(weights, instances)
        assert (found.n_diverged, found.n_not_converged) == (diverged, waiting)


@pytest.mark.parametrize("name", ["truncated_likelihood", "surrogate_likelihood"])
def test_probabilities_above_one_are_counted_one_by_one(name: str) -> None:
    loss = loss_of(name, 2, True, bl.MeanField(), n_sweeps=1)
    instances, weights = several(2, True, ["ring"] * 12), -frustrated(loss)
    if name == "truncated_likelihood":
        weights = np.append(weights_for(loss, 2.0)[:-4], [2.0, -2.0, -2.0, 2.0])
    else:  # mean field finds one of two modes, and the labels are at the other
        scored = [one.graph(loss.template.theta(weights, one.inputs)) for one in instances]
        best = [np.array(bl.maximize(graph).assignment) for graph in scored]
        instances = [replace(one, labels=labels) for one, labels in zip(instances, best, strict=True)]
    value, _, diverged, _ = one_by_one(loss, weights, [replace(one) for one in instances])
    found = loss.evaluate(weights, instances)
    assert 0 < diverged < 12 and found.n_diverged == diverged
    assert found.value == pytest.approx(value, rel=1e-9)


def test_a_union_that_failed_is_tried_again_later() -> None:
    loss = loss_of("surrogate_likelihood(max_iters=60)", 2, True, bl.BP())
    instances = several(2, True, ["ring"] * 12)
    loss.evaluate(frustrated(loss), instances)
    joined: Any = next(iter(loss.batches(instances)))
    calm, unions = weights_for(loss, 0.1), joined.units
    assert unions[0].is_apart()
    for _ in range(3):
        assert loss.evaluate(calm, instances).n_not_converged == 0
    assert not unions[0].is_apart()


# -- features -----------------------------------------------------------------------------------------------------
def test_sparse_and_made_features_are_joined_too() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    loss = loss_of("pseudo_likelihood", 2, True)
    instances, weights = several(2, True, ["ring"] * 6), weights_for(loss)
    expected = loss.value_and_grad(weights, instances)

    class Lazily:
        def __init__(self, values: np.ndarray) -> None:
            self.values, self.shape = values, values.shape

        def __call__(self) -> np.ndarray:
            return self.values

    for change in (sparse.csr_array, lambda a: a.astype(np.float64), Lazily):
        made = [replace(one, inputs=(Rows(8, change(one.inputs[0].values)), one.inputs[1])) for one in instances]
        joiner = Joiner.of(loss)
        assert joiner is not None and len(list(joiner.units(made))) == 1
        value, grad = loss.value_and_grad(weights, made)
        assert value == pytest.approx(expected[0], rel=1e-14)
        np.testing.assert_allclose(grad, expected[1], rtol=0, atol=1e-14)


# -- whole fits ---------------------------------------------------------------------------------------------------
def graphs(n: int) -> Iterator[tuple[tuple[np.ndarray, np.ndarray], np.ndarray]]:
    rng = np.random.default_rng(0)
    for k in range(n):
        size, edges = SHAPES[list(SHAPES)[k % 4]]
        y = rng.integers(2, size=size)
        yield (y[:, None] + rng.normal(size=(size, 1)), np.array(edges)), y


@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd(batch_size=16)"])
@pytest.mark.parametrize("loss", ["clique_logistic", "likelihood", "surrogate_likelihood"])
def test_lists_and_streams_fit_the_same_weights(loss: str, optimizer: str) -> None:
    X, Y = zip(*graphs(40), strict=True)
    options: dict[str, Any] = {"loss": loss, "optimizer": optimizer, "max_iters": 6, "n_sweeps": 3, "tol": 1e-9}
    listed = bl.GraphCRF(**options).fit(list(X), list(Y))
    if optimizer == "lbfgs":  # the others shuffle lists
        streamed = bl.GraphCRF(**options).fit(lambda: graphs(40))
        np.testing.assert_allclose(streamed.weights_, listed.weights_, rtol=0, atol=1e-6)  # without warm starts
    threaded = bl.GraphCRF(**options, n_jobs=2).fit(list(X), list(Y))
    np.testing.assert_array_equal(threaded.weights_, listed.weights_)
    assert not listed.loss_._recent  # the data is let go


@pytest.mark.parametrize("loss", ["clique_logistic", "likelihood", "surrogate_likelihood", "pseudo_likelihood"])
def test_predictions_do_not_depend_on_what_else_is_asked(loss: str) -> None:
    X, Y = (list(part) for part in zip(*graphs(40), strict=True))
    crf = bl.GraphCRF(loss=loss, max_iters=3, n_sweeps=3).fit(X, Y)
    alone = [crf.predict_marginals([x])[0] for x in X]
    in_one_thread = crf.predict_marginals(X)
    for n_jobs in (1, 2):
        together = crf.set_params(n_jobs=n_jobs).predict_marginals(iter(X))
        assert [m.tobytes() for m in together] == [m.tobytes() for m in in_one_thread]
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)  # potentials of all come from one product
    for decode in ("mpm", "map", "mean"):
        found = crf.predict(X, decode)
        assert [labels.shape for labels in found] == [y.shape for y in Y]
        for one, x in zip(found, X, strict=True):
            np.testing.assert_allclose(one, crf.predict([x], decode)[0], rtol=0, atol=1e-13)


def test_inputs_that_cannot_be_read_are_named_among_many() -> None:
    X, Y = (list(part) for part in zip(*graphs(20), strict=True))
    crf = bl.GraphCRF(loss="clique_logistic", max_iters=1).fit(X, Y)
    X[13] = (X[13][0], X[13][1] + 100)
    with pytest.raises(ModelError, match="instance 13: edges"):
        crf.predict(X)

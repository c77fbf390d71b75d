"""Every loss on every kind of model: gradients are those of the values, constants in factors change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from beliefs.datasets import make_grid
from beliefs.inference.messages.trw import TRW
from beliefs.inference.registry import METHODS
from beliefs.inference.text import parse_method
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.registry import LOSSES, make_loss
from families import family
from learning_reference import identity, labelled, slope

FAMILIES = [
    "single_variable", "chain", "tree", "grid", "star", "higher_order", "higher_order_tree", "disconnected",
    "mixed_cardinalities", "constants", "repeated_scopes", "tied_tables", "isolated_variables", "no_factors",
]  # fmt: skip
TEXTS = {"composite_likelihood": "composite_likelihood(components=acyclic)"}  # the default is for grids
HIDES = {"m3e": 1}  # variables: it needs those that are hidden to share no factor
GRIDS = {"patch_pseudo_likelihood": ["chain", "grid", "single_variable"]}
SMOOTH = [cls for cls in LOSSES if not cls.stochastic]


def loss_on(cls: type[Loss], instance: Instance, **options: Any) -> Loss:
    return make_loss(
        TEXTS.get(cls.name, cls.name),
        template=identity(instance.layout.n_cells),
        method=TRW(),
        n_sweeps=4,
        tol=1e-13,
        **options,
    )


def cases(losses: list[type[Loss]]) -> list[object]:
    return [
        pytest.param(cls, name, hidden, id=f"{cls.name}-{name}-{hidden} hidden")
        for cls in losses
        for name in GRIDS.get(cls.name, FAMILIES)
        for hidden in ((0, HIDES.get(cls.name, 2)) if cls.hidden and family(name).n_vars > 3 else (0,))
    ]


@pytest.mark.parametrize(("cls", "name", "hidden"), cases(SMOOTH))
def test_the_gradient_is_that_of_the_value(cls, name, hidden):
    graph = family(name)
    instance = labelled(graph, hidden)
    loss = loss_on(cls, instance, l2=0.01)
    value, grad = loss.value_and_grad(graph.theta, [instance])
    assert np.isfinite(value) and np.isfinite(grad).all()
    direction = np.random.default_rng(2).standard_normal(graph.theta.size)
    found = slope(lambda t: loss.value_and_grad(t, [instance])[0], graph.theta, direction, 1e-4)
    tolerance = 1e-6 if cls.name.startswith("surrogate") else 1e-7
    assert abs(found - grad @ direction) < tolerance * max(1.0, abs(found))


@pytest.mark.parametrize(("cls", "name", "hidden"), cases(list(LOSSES)))
def test_a_constant_added_to_a_factor_changes_nothing(cls, name, hidden):
    graph = family(name)
    instance = labelled(graph, hidden)
    lay = graph.layout
    grad = loss_on(cls, instance).value_and_grad(graph.theta, [instance])[1]
    for f in range(lay.n_factors):
        assert abs(grad[lay.cells(f)].sum()) < 1e-8
    if cls.stochastic or not lay.n_factors:
        return
    shift = np.zeros(lay.n_cells)
    shift[lay.cells(lay.n_factors - 1)] = 3.0
    before = loss_on(cls, labelled(graph, hidden)).value_and_grad(graph.theta, [labelled(graph, hidden)])[0]
    after = loss_on(cls, labelled(graph, hidden)).value_and_grad(graph.theta + shift, [labelled(graph, hidden)])[0]
    assert after == pytest.approx(before, abs=1e-8)


@pytest.mark.parametrize("cls", LOSSES, ids=lambda cls: cls.name)
def test_threads_change_no_byte(cls):
    graph = family("grid")
    made = [
        loss_on(cls, labelled(graph), threads=threads).value_and_grad(
            graph.theta, [labelled(graph, seed=s) for s in range(5)]
        )
        for threads in (1, 2)
    ]
    assert made[0][0] == made[1][0]
    assert np.array_equal(made[0][1], made[1][1])


@pytest.mark.parametrize("cls", [c for c in SMOOTH if not c.name.startswith("truncated")], ids=lambda cls: cls.name)
def test_a_chain_and_its_mirror_image_cost_the_same(cls):
    graph = family("chain")
    instance = labelled(graph)
    value = loss_on(cls, instance).value_and_grad(graph.theta, [instance])[0]
    n = graph.n_vars
    lay = graph.layout
    turned = type(graph).from_tables(
        lay.card[::-1],
        [(tuple(n - 1 - lay.scope(f)), graph.theta[lay.cells(f)].reshape(lay.shape(f))) for f in range(lay.n_factors)],
        log=True,
    )
    mirrored = Instance(turned.layout, None, instance.labels[::-1].copy())
    again = loss_on(cls, mirrored).value_and_grad(turned.theta, [mirrored])[0]
    assert again == pytest.approx(value, abs=1e-9)


# -- gradients belong to their values, or say that they do not ---------------------------------------------------
THROUGH = [
    ("wmb(ibound=2)", "auto", 1e-3),
    ("gdd(ibound=2)", "auto", 1e-2),
    ("trw", "auto", 1e-6),
    ("trw", "implicit", 1e-6),
    ("trw", "perturbation", 1e-6),
    ("bp", "auto", 1e-6),
    ("mean_field", "auto", 1e-6),
    ("mean_field", "perturbation", 1e-6),
    ("junction_tree", "auto", 1e-6),
    ("junction_tree", "perturbation", 1e-6),
]


@pytest.mark.parametrize("text", ["univariate_logistic", "clique_quadratic"])
@pytest.mark.parametrize(("method", "gradient", "tolerance"), THROUGH)
def test_gradients_that_count_as_converged_are_those_of_the_values(text, method, gradient, tolerance):
    checked = 0
    for seed in range(2):
        graph = make_grid(3, field=1.0, coupling=1.0, seed=seed)
        parts: dict[str, Any] = {"template": identity(graph.layout.n_cells), "method": parse_method(method, METHODS)}
        loss = make_loss(text, gradient=gradient, **parts)
        found = loss.evaluate(graph.theta, [labelled(graph)])
        direction = np.random.default_rng(seed).standard_normal(graph.theta.size)
        values = [loss.evaluate(graph.theta + r * direction, [labelled(graph)]).value for r in (1e-4, -1e-4)]
        if not found.n_not_converged:
            checked += 1
            assert abs((values[0] - values[1]) / 2e-4 - found.grad @ direction) < tolerance
    assert checked


@pytest.mark.parametrize("method", ["wmb(ibound=1)", "gdd(ibound=2)"])
def test_bounds_settle_until_their_beliefs_are_their_gradient(method):
    """A bound is flat at its optimum: it stands still long before its beliefs do."""
    checked = 0
    for seed in range(2):
        graph = make_grid(2, field=1.0, coupling=1.5, seed=seed)
        parts: dict[str, Any] = {"template": identity(graph.layout.n_cells), "method": parse_method(method, METHODS)}
        loss = make_loss("surrogate_likelihood(max_iters=1000)", **parts)
        found = loss.evaluate(graph.theta, [labelled(graph)])
        direction = np.random.default_rng(seed).standard_normal(graph.theta.size)
        values = [loss.evaluate(graph.theta + r * direction, [labelled(graph)]).value for r in (1e-3, -1e-3)]
        if not found.n_not_converged:
            checked += 1
            assert abs((values[0] - values[1]) / 2e-3 - found.grad @ direction) < 5e-5
    assert checked

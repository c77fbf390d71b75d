"""Composite likelihood: the conditionals of sets of variables, its two extremes, and the choices of sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import reference
from beliefs.errors import ModelError, ZeroProbabilityError
from beliefs.learning.instances import Instance
from beliefs.learning.losses.components import COMPONENTS, acyclic, choose, grid_shape
from beliefs.learning.losses.composite_likelihood import CompositeLikelihood, PatchPseudoLikelihood
from beliefs.learning.losses.pseudo_likelihood import PseudoLikelihood
from beliefs.model import FactorGraph
from beliefs.model.layout import Layout
from families import family, grid_pairs, random_model, unary
from losses_reference import (
    SMOOTH,
    TEMPLATE,
    check_gradient,
    check_renaming,
    composite,
    induced,
    labelled,
    population_gradient,
    square,
)


def composite_loss(components: object, **options: int) -> CompositeLikelihood:
    return CompositeLikelihood(template=TEMPLATE, components=components, **options)  # type: ignore[arg-type]


def some_sets(n: int, seed: int = 0) -> list[list[int]]:
    """Sets of all sizes that overlap, in no order."""
    rng = np.random.default_rng(seed)
    sizes = [1, min(2, n), max(1, n // 2), n]
    return [rng.permutation(n)[:size].tolist() for size in sizes]


def grid(rows: int, cols: int, card: int = 2) -> FactorGraph:
    return random_model([card] * (rows * cols), unary(rows * cols) + grid_pairs(rows, cols), seed=41)


def as_sets(components: list[np.ndarray]) -> list[tuple[int, ...]]:
    return [tuple(int(v) for v in part) for part in components]


@pytest.mark.parametrize("name", [name for name in SMOOTH if name != "no_factors"])
def test_value_and_gradient_are_those_of_the_conditionals(name: str) -> None:
    graph = family(name)
    instance, sets = labelled(graph, seed=1), some_sets(graph.n_vars)
    loss = composite_loss(sets)
    expected = composite(graph, instance.labels.tolist(), sets)
    assert loss.part(np.array(graph.theta), instance).value == pytest.approx(expected, abs=1e-10)
    check_gradient(loss, graph.theta, instance)


@pytest.mark.parametrize("name", [*SMOOTH, "hard_zeros"])
def test_extremes_are_the_pseudo_likelihood_and_the_likelihood(name: str) -> None:
    graph = family(name)
    joint = reference.joint_table(graph)
    best = np.array(np.unravel_index(int(joint.argmax()), joint.shape), np.int64)
    instance, theta = Instance(graph.layout, None, best), np.array(graph.theta)
    alone = composite_loss([[v] for v in range(graph.n_vars)]).part(theta, instance)
    for pseudo in (PseudoLikelihood(template=TEMPLATE), composite_loss("variables")):
        assert alone.value == pytest.approx(pseudo.part(theta, instance).value, abs=1e-10)
        np.testing.assert_allclose(alone.grad_theta, pseudo.part(theta, instance).grad_theta, atol=1e-12)
    together = composite_loss([list(range(graph.n_vars))]).part(theta, instance)
    assert together.value == pytest.approx(reference.log_z(joint) - float(joint.max()), abs=1e-10)
    np.testing.assert_allclose(together.grad_theta, reference.mu(graph, joint) - instance.statistics, atol=1e-10)


@pytest.mark.parametrize("choice", COMPONENTS)
@pytest.mark.parametrize("size", [2, 3])
def test_every_choice_on_a_grid(choice: str, size: int) -> None:
    graph = grid(3, 4)
    instance, loss = labelled(graph, seed=2), composite_loss(choice, size=size)
    sets = as_sets(choose(graph.layout, choice, size, 1, "it"))
    expected = composite(graph, instance.labels.tolist(), sets)
    assert loss.part(np.array(graph.theta), instance).value == pytest.approx(expected, abs=1e-10)
    check_gradient(loss, graph.theta, instance)
    assert set().union(*sets) == set(range(12))


def test_patches_slide_and_their_extremes_hold() -> None:
    graph = grid(3, 4)
    instance, theta = labelled(graph, seed=3), np.array(graph.theta)
    one = PatchPseudoLikelihood(template=TEMPLATE, size=1).part(theta, instance)
    pseudo = PseudoLikelihood(template=TEMPLATE).part(theta, instance)
    assert one.value == pytest.approx(pseudo.value, abs=1e-11)
    np.testing.assert_allclose(one.grad_theta, pseudo.grad_theta, atol=1e-12)
    joint = reference.joint_table(graph)
    whole = PatchPseudoLikelihood(template=TEMPLATE, size=4).part(theta, instance)
    assert whole.value == pytest.approx(reference.log_z(joint) - joint[tuple(instance.labels)], abs=1e-10)
    two = PatchPseudoLikelihood(template=TEMPLATE).part(theta, instance)
    windows = [[r * 4 + c, r * 4 + c + 1, r * 4 + c + 4, r * 4 + c + 5] for r in range(2) for c in range(3)]
    assert two.value == pytest.approx(composite(graph, instance.labels.tolist(), windows), abs=1e-10)


@pytest.mark.parametrize("name", ["chain", "higher_order", "isolated_variables", "grid"])
def test_what_is_chosen_where_nothing_is_said(name: str) -> None:
    graph = family(name)
    instance, theta = labelled(graph, seed=9), np.array(graph.theta)
    expected = {"grid": ("rows_and_columns", "blocks")}.get(name, ("acyclic", "factors"))
    for kind, choice in zip((CompositeLikelihood, PatchPseudoLikelihood), expected, strict=True):
        assert kind(template=TEMPLATE).part(theta, instance).value == composite_loss(choice).part(theta, instance).value
    if name == "chain":  # one set of all variables
        joint = reference.joint_table(graph)
        value = CompositeLikelihood(template=TEMPLATE).part(theta, instance).value
        assert value == pytest.approx(reference.log_z(joint) - joint[tuple(instance.labels)], abs=1e-10)


def test_sets_of_factors() -> None:
    graph = random_model([2] * 6, [(0,), (3, 1), (1, 3), (4, 2, 0), (4,)], seed=1)
    assert as_sets(choose(graph.layout, "factors", 2, 1, "it")) == [(0, 2, 4), (1, 3), (5,)]


def test_sets_of_a_grid() -> None:
    layout = grid(4, 5).layout
    pixels = np.arange(20).reshape(4, 5)
    rows, columns = [tuple(r) for r in pixels.tolist()], [tuple(c) for c in pixels.T.tolist()]
    assert as_sets(choose(layout, "rows", 2, 1, "it")) == rows
    assert as_sets(choose(layout, "columns", 2, 1, "it")) == columns
    assert as_sets(choose(layout, "rows_and_columns", 2, 1, "it")) == rows + columns
    assert as_sets(choose(layout, "stripes", 3, 1, "it")) == [tuple(range(15)), tuple(range(15, 20))]
    tiles = as_sets(choose(layout, "blocks", 2, 2, "it"))
    assert sorted(v for tile in tiles for v in tile) == list(range(20)) and tiles[2] == (4, 9)
    assert len(choose(layout, "blocks", 2, 1, "it")) == 3 * 4


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 2), (2, 5), (5, 2), (3, 4)])
def test_grids_are_recognised(shape: tuple[int, int]) -> None:
    rows, cols = shape
    pairs = grid_pairs(rows, cols)
    across = [(r * cols + c, (r + 1) * cols + c + 1) for r in range(rows - 1) for c in range(cols - 1)]
    across += [(r * cols + c + 1, (r + 1) * cols + c) for r in range(rows - 1) for c in range(cols - 1)]
    for scopes in (pairs, unary(rows * cols) + [p[::-1] for p in pairs], pairs + across, pairs + pairs):
        assert grid_shape(random_model([2] * (rows * cols), scopes, seed=1).layout) == shape


def test_a_column_is_taken_for_a_row_and_other_graphs_for_no_grid() -> None:
    assert grid_shape(random_model([2] * 4, grid_pairs(4, 1), seed=1).layout) == (1, 4)
    assert grid_shape(family("complete").layout) is None
    assert grid_shape(random_model([2] * 6, grid_pairs(2, 3)[1:], seed=1).layout) is None
    assert grid_shape(random_model([2] * 12, [*grid_pairs(3, 4), (0, 11)], seed=1).layout) is None


@pytest.mark.parametrize("name", ["chain", "tree", "grid", "complete", "star", "higher_order", "disconnected"])
def test_acyclic_sets_are_forests_that_cover_everything(name: str) -> None:
    graph = family(name)
    sets = as_sets(acyclic(graph.layout))
    scopes = [{int(v) for v in graph.layout.scope(f)} for f in range(graph.n_factors)]
    joined = {pair for scope in scopes for pair in combinations(sorted(scope), 2)}
    for part in sets:
        inside = [pair for pair in joined if set(pair) <= set(part)]
        position = {v: i for i, v in enumerate(part)}
        tables = [((position[u], position[v]), np.ones((2, 2))) for u, v in inside]
        assert reference.is_forest(FactorGraph.from_tables([2] * len(part), tables))
    assert set().union(*sets) == set(range(graph.n_vars))
    assert all(any(set(pair) <= set(part) for part in sets) for pair in joined)
    if name in ("chain", "tree", "star"):
        assert len(sets) == 1


@pytest.mark.parametrize("components", ["acyclic", [[0, 1, 2], [2, 3], [4, 5, 0]], lambda _: [[1], [5, 3, 2]]])
@pytest.mark.parametrize("name", ["higher_order", "mixed_cardinalities"])
def test_hidden_variables_leave_the_model_of_the_labelled_ones(name: str, components: object) -> None:
    graph = family(name)
    instance = labelled(graph, seed=4, hidden=[1])
    sub, labels, seen = induced(graph, instance.labels)
    if isinstance(components, str):
        sets = as_sets(acyclic(graph.layout))
    else:
        sets = components(instance) if callable(components) else components  # type: ignore[assignment]
    kept = [[seen.index(v) for v in part if v in seen] for part in sets]
    loss = composite_loss(components)
    expected = composite(sub, labels.tolist(), [part for part in kept if part])
    for _ in range(2):  # the second time by what was kept
        assert loss.part(np.array(graph.theta), instance).value == pytest.approx(expected, abs=1e-10)
    check_gradient(loss, graph.theta, instance)


def test_what_is_kept_belongs_to_one_choice() -> None:
    graph = grid(3, 3)
    instance, theta = labelled(graph, seed=5, hidden=[4]), np.array(graph.theta)
    fresh = [
        composite_loss(c, size=s).part(theta, Instance(graph.layout, None, instance.labels)).value
        for c, s in (("stripes", 1), ("stripes", 2), ("rows", 2), ([[0, 1]], 2), ([[1, 2]], 2))
    ]
    again = [
        composite_loss(c, size=s).part(theta, instance).value
        for c, s in (("stripes", 1), ("stripes", 2), ("rows", 2), ([[0, 1]], 2), ([[1, 2]], 2))
    ]
    assert again == fresh and len(set(fresh)) == 4  # stripes of one row are rows


@pytest.mark.parametrize("components", ["acyclic", [[0, 1], [2, 3], [1, 2]]])
def test_the_truth_is_stationary_in_the_population(components: object) -> None:
    np.testing.assert_allclose(population_gradient(composite_loss(components), square()), 0.0, atol=1e-13)


def test_criss_cross_is_stationary_in_the_population() -> None:
    graph = grid(2, 3)
    np.testing.assert_allclose(population_gradient(composite_loss("rows_and_columns"), graph), 0.0, atol=1e-13)


def test_names_do_not_matter() -> None:
    graph = family("higher_order")
    labels = labelled(graph, seed=6, hidden=[2]).labels
    sets = [[0, 1, 4], [3, 5], [2, 1]]
    new_index = np.random.default_rng(3).permutation(graph.n_vars)  # the first draw of ``renamed``

    def make(g: FactorGraph) -> CompositeLikelihood:
        return composite_loss(sets if g is graph else [[int(new_index[v]) for v in part] for part in sets])

    check_renaming(make, graph, labels)


def test_triples_and_squares_of_a_grid_are_cut_as_they_must() -> None:
    """Factors over 2 x 2 pixels: rows cut them in half, columns the other way, blocks keep some whole."""
    squares: list[tuple[int, ...]] = [
        (r * 4 + c, r * 4 + c + 5, r * 4 + c + 1, r * 4 + c + 4) for r in range(2) for c in range(3)
    ]
    graph = random_model([2] * 12, unary(12) + squares, seed=42)
    assert grid_shape(graph.layout) == (3, 4)
    instance = labelled(graph, seed=7)
    for choice in ("rows_and_columns", "blocks", "stripes"):
        sets = as_sets(choose(graph.layout, choice, 2, 1, "it"))
        value = composite_loss(choice).part(np.array(graph.theta), instance).value
        assert value == pytest.approx(composite(graph, instance.labels.tolist(), sets), abs=1e-10)


def test_bad_components_are_refused() -> None:
    graph = family("complete")
    instance, theta = labelled(graph, name="graph 3"), np.array(graph.theta)
    for components, message in (
        ("rows", "graph 3: components='rows' needs a grid in raster order"),
        ([[0, 7]], "graph 3: component 0 names variable 7; there are variables 0..4"),
        ([[1], [0, 0]], "graph 3: component 1 names a variable twice"),
        ([[1], []], "component 1 must be a list of variable indices, at least one"),
        ([[0.5]], "component 0 must be a list of variable indices"),
        ([], "there is no component"),
    ):
        with pytest.raises(ModelError, match=message):
            composite_loss(components).part(theta, instance)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"components": "diagonals"}, "components must be one of auto, variables, rows"),
        ({"components": 3}, "components must be a word, a list of lists or a function"),
        ({"size": 0}, "size must be an integer of at least 1"),
        ({"size": 2, "step": 3}, "step must be None or an integer from 1 to size"),
        ({"size": 2, "step": 0}, "step must be an integer of at least 1, found 0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        CompositeLikelihood(template=TEMPLATE, **options)  # type: ignore[arg-type]


def test_labels_that_a_hard_zero_excludes_are_refused() -> None:
    graph = FactorGraph.from_tables([2, 2], [((0, 1), [[1, 0], [1, 1]])])
    with pytest.raises(ZeroProbabilityError, match="potential of zero"):
        composite_loss([[0, 1]]).part(np.array(graph.theta), Instance(graph.layout, None, np.array([0, 1])))


def test_nothing_labelled_in_a_component_costs_nothing() -> None:
    graph = family("chain")
    instance = labelled(graph, seed=8, hidden=range(6))
    part = composite_loss([[0, 1], [2, 3]]).part(np.array(graph.theta), instance)
    assert part.value == 0.0 and not part.grad_theta.any()


def test_layouts_share_what_was_unrolled() -> None:
    graph = grid(3, 3)
    loss = composite_loss("rows")
    first, second = (loss._unrolled(Instance(graph.layout, None, np.full(9, x))) for x in (0, 1))
    assert first is second
    assert isinstance(first.layout, Layout)

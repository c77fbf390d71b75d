"""Pictures: what is drawn, where, and that nothing else is touched."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import beliefs as bl
from beliefs.display.layered import layered_drawing, layers
from beliefs.driver import Trace, Value
from beliefs.plot import (
    marginal_change,
    marginal_entropy,
    plot_filters,
    plot_grid,
    plot_images,
    plot_marginals,
    plot_network,
    plot_scatter,
    plot_trace,
)
from beliefs.plot.canvas import DARK

SOURCE = Path(__file__).resolve().parents[2] / "src"
EVIDENCE = {"HRBP": "HIGH", "BP": "LOW", "SAO2": "LOW"}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def alarm() -> bl.BayesianNetwork:
    return bl.datasets.load_bn("alarm")


@pytest.fixture(scope="module")
def before(alarm: bl.BayesianNetwork) -> bl.InferenceResult:
    return bl.infer(alarm)


@pytest.fixture(scope="module")
def after(alarm: bl.BayesianNetwork) -> bl.InferenceResult:
    return bl.infer(alarm.condition(EVIDENCE))


def boxes(ax: Any) -> dict[Any, FancyBboxPatch]:
    return {patch.get_gid(): patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)}


def overlaps(a: FancyBboxPatch, b: FancyBboxPatch) -> bool:
    return (
        a.get_x() < b.get_x() + b.get_width()
        and b.get_x() < a.get_x() + a.get_width()
        and a.get_y() < b.get_y() + b.get_height()
        and b.get_y() < a.get_y() + a.get_height()
    )


# -- numbers of each variable -------------------------------------------------------------------------------------
def test_entropy_is_that_of_the_result(after: bl.InferenceResult) -> None:
    expected = [after.entropy(v) for v in range(after.graph.n_vars)]
    np.testing.assert_allclose(marginal_entropy(after), expected, atol=1e-14)


def test_change_is_the_largest_change_of_any_event() -> None:
    g = bl.FactorGraph.from_tables([3, 2], [((0,), [0.2, 0.3, 0.5]), ((1,), [1, 1])])
    h = bl.FactorGraph.from_tables([3, 2], [((0,), [0.5, 0.4, 0.1]), ((1,), [1, 1])])
    np.testing.assert_allclose(marginal_change(bl.infer(g), bl.infer(h)), [0.4, 0.0], atol=1e-15)


def test_change_of_other_variables_is_refused(after: bl.InferenceResult) -> None:
    other = bl.infer(bl.datasets.load_bn("asia"))
    with pytest.raises(bl.ModelError, match="different variables"):
        marginal_change(other, after)


# -- layered drawings ---------------------------------------------------------------------------------------------
def random_arcs(n: int, m: int, seed: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    name = rng.permutation(n)
    pairs = {tuple(sorted(rng.choice(n, 2, replace=False))) for _ in range(m)}
    return [(int(name[u]), int(name[v])) for u, v in sorted(pairs)]


@pytest.mark.parametrize("seed", range(5))
def test_arcs_point_down_and_nothing_overlaps(seed: int) -> None:
    n = 25
    arcs = random_arcs(n, 40, seed)
    width = np.random.default_rng(seed).uniform(1, 6, n)
    drawing = layered_drawing(n, arcs, width, gap=1.0)
    for (u, v), bends in zip(arcs, drawing.bends, strict=True):
        assert list(bends[:, 1]) == list(range(drawing.layer[u] + 1, drawing.layer[v]))
        for x, level in bends:  # a line passes between the boxes of the layers it crosses
            there = np.flatnonzero(drawing.layer == level)
            assert (np.abs(drawing.x[there] - x) > width[there] / 2).all()
    for level in np.unique(drawing.layer):
        row = np.flatnonzero(drawing.layer == level)
        row = row[np.argsort(drawing.x[row])]
        assert (np.diff(drawing.x[row]) >= (width[row][1:] + width[row][:-1]) / 2 + 1.0 - 1e-9).all()


@pytest.mark.parametrize("seed", range(4))
def test_layers_make_arcs_shortest(seed: int) -> None:
    n = 5
    arcs = random_arcs(n, 6, seed)

    def length(layer: Any) -> float:
        steps = [layer[v] - layer[u] for u, v in arcs]
        return sum(steps) if min(steps) >= 1 else np.inf

    best = min(length(layer) for layer in itertools.product(range(n), repeat=n))
    assert length(layers(n, arcs)) == best


def test_a_tree_is_drawn_without_crossings() -> None:
    arcs = [((v - 1) // 2, v) for v in range(1, 31)]
    shuffled = np.random.default_rng(0).permutation(31)
    drawing = layered_drawing(31, [(int(shuffled[u]), int(shuffled[v])) for u, v in arcs], np.ones(31))
    assert drawing.n_crossings == 0


def test_crossings_are_counted() -> None:
    complete = [(u, v) for u in range(3) for v in range(3, 6)]
    assert layered_drawing(6, complete, np.ones(6)).n_crossings == 9  # of K(3, 3) in two layers, whatever the order


# -- networks -----------------------------------------------------------------------------------------------------
def test_observed_variables_are_marked(
    alarm: bl.BayesianNetwork, before: bl.InferenceResult, after: bl.InferenceResult
) -> None:
    found = boxes(plot_network(alarm, after, prior=before))
    assert len(found) == 37
    marked = {name.removeprefix("observed:") for name in found if name.startswith("observed:")}
    assert marked == set(EVIDENCE)
    for name, box in found.items():
        assert (matplotlib.colors.to_hex(box.get_facecolor()) == DARK) == name.startswith("observed:")


def test_names_do_not_overlap(alarm: bl.BayesianNetwork, after: bl.InferenceResult) -> None:
    found = list(boxes(plot_network(alarm, after)).values())
    assert not [1 for a, b in itertools.combinations(found, 2) if overlaps(a, b)]


def test_boxes_and_lines_lie_within_the_axes(alarm: bl.BayesianNetwork) -> None:
    ax = plot_network(alarm)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    for box in boxes(ax).values():
        assert left < box.get_x() < box.get_x() + box.get_width() < right
        assert bottom < box.get_y() < box.get_y() + box.get_height() < top
    assert len(ax.collections[0].get_paths()) == len(alarm.edges)
    for path in ax.collections[0].get_paths():
        vertices = np.asarray(path.vertices)
        assert ((vertices > (left, bottom)) & (vertices < (right, top))).all()


def test_parents_stand_above_children(alarm: bl.BayesianNetwork) -> None:
    found = boxes(plot_network(alarm))
    for parent, child in alarm.edges:
        assert found[parent].get_y() > found[child].get_y() + found[child].get_height()


def test_a_box_is_darker_where_the_number_is_larger(alarm: bl.BayesianNetwork) -> None:
    values = np.arange(37.0)
    found = boxes(plot_network(alarm, values=values, label="index"))
    shade = [sum(found[v.name].get_facecolor()[:3]) for v in alarm.variables]  # type: ignore[arg-type]
    assert (np.diff(shade) < 0).all()


def test_factor_graph_with_large_factors() -> None:
    g = bl.FactorGraph.from_tables([2] * 6, [((0, 1, 2), np.ones(8)), ((2, 3), np.ones(4)), ((4,), np.ones(2))])
    ax = plot_network(g.condition({"x3": 1}))
    found = list(boxes(ax).values())
    assert len(found) == 6
    assert not [1 for a, b in itertools.combinations(found, 2) if overlaps(a, b)]
    assert "observed:x3" in boxes(ax)
    assert len(ax.collections[0].get_paths()) == 3  # x3 is observed, so its pair is no line
    assert len(ax.collections[1].get_paths()) == 1  # one square


def test_positions_are_kept_in_proportion() -> None:
    g = bl.datasets.make_ising_grid(3, 4, seed=0)
    places = np.array([(c, -r) for r in range(3) for c in range(4)])
    found = boxes(plot_network(bl.infer(g), positions=places))
    centre = np.array([(b.get_x() + b.get_width() / 2, b.get_y() + b.get_height() / 2) for b in found.values()])
    scale = centre[1, 0] - centre[0, 0]
    np.testing.assert_allclose(centre, places * scale, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": [1.0, 2.0]}, "values must be finite with shape"),
        ({"values": np.full(37, np.inf)}, "values must be finite"),
        ({"positions": np.zeros((37, 2))}, "same position"),
        ({"positions": np.zeros(3)}, "positions must be finite with shape"),
    ],
)
def test_bad_numbers_are_refused(alarm: bl.BayesianNetwork, options: dict[str, Any], message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        plot_network(alarm, **options)


def test_result_of_another_model_is_refused(alarm: bl.BayesianNetwork) -> None:
    with pytest.raises(bl.ModelError, match="other variables"):
        plot_network(alarm, bl.infer(bl.datasets.load_bn("asia")))


# -- charts -------------------------------------------------------------------------------------------------------
def test_bars_are_the_marginals(before: bl.InferenceResult, after: bl.InferenceResult) -> None:
    ax = plot_marginals(after, ["INTUBATION", "HYPOVOLEMIA"], prior=before)
    widths = [[bar.get_width() for bar in group] for group in ax.containers]
    names = ["INTUBATION", "INTUBATION", "HYPOVOLEMIA", "HYPOVOLEMIA"]
    for width, name, result in zip(widths, names, [before, after] * 2, strict=True):
        np.testing.assert_array_equal(width, result.marginal(name))
    states = [label.get_text() for label in ax.get_yticklabels()]
    assert states == ["NORMAL", "ESOPHAGEAL", "ONESIDED", "TRUE", "FALSE"]


def test_bars_without_a_prior(after: bl.InferenceResult) -> None:
    ax = plot_marginals(after)
    assert len(ax.containers) == 37
    assert ax.get_legend() is None


def test_no_variables_are_refused(after: bl.InferenceResult) -> None:
    with pytest.raises(bl.ModelError, match="no variables"):
        plot_marginals(after, [])


def test_scatter_has_one_point_for_each_free_state(after: bl.InferenceResult, before: bl.InferenceResult) -> None:
    points = np.asarray(plot_scatter(after, before).collections[0].get_offsets())
    layout = after.graph.layout
    assert len(points) == layout.n_states - layout.n_vars
    np.testing.assert_array_equal(points[0], [before.marginal(0)[1], after.marginal(0)[1]])


def test_trace_of_an_iterative_method() -> None:
    g = bl.datasets.make_ising_grid(4, coupling=0.3, seed=0)
    result, exact = bl.infer(g, "bp", trace_every=1), bl.infer(g)
    ax = plot_trace(result, exact=exact.log_z)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), result.trace.log_z)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [exact.log_z] * 2)
    assert not ax.collections  # nothing is certified, so there is no band
    assert plot_trace(result, against="seconds").get_xlabel() == "seconds"
    with pytest.raises(bl.ModelError, match="'iteration' or 'seconds'"):
        plot_trace(result, against="steps")  # type: ignore[arg-type]


def test_certified_bounds_are_a_band(after: bl.InferenceResult) -> None:
    from dataclasses import replace

    rows = [(k, 0.1 * k, 0.5**k, Value(1.0, 1.0 - 0.5**k, 1.0 + 0.5**k)) for k in range(5)]
    ax = plot_trace(replace(after, trace=Trace.of(rows)))
    (band,) = ax.collections
    bottom, top = band.get_datalim(ax.transData).y0, band.get_datalim(ax.transData).y1
    assert (bottom, top) == (0.0, 2.0)
    assert {line.get_label() for line in ax.lines} >= {"lower bound", "upper bound"}


def test_grid_image_is_the_marginals() -> None:
    result = bl.infer(bl.datasets.make_ising_grid(3, 5, seed=2))
    image = plot_grid(result, (3, 5)).images[0].get_array()
    assert image is not None
    np.testing.assert_array_equal(np.ravel(image), [result.marginal(v)[1] for v in range(15)])
    with pytest.raises(bl.ModelError, match="15 variables, found 12"):
        plot_grid(np.zeros(12), (3, 5))


# -- manners ------------------------------------------------------------------------------------------------------
def test_given_axes_are_used(alarm: bl.BayesianNetwork, after: bl.InferenceResult) -> None:
    for draw in (
        lambda ax: plot_network(alarm, ax=ax),
        lambda ax: plot_marginals(after, ["HR"], ax=ax),
        lambda ax: plot_trace(after, ax=ax),
        lambda ax: plot_scatter(after, after, ax=ax),
        lambda ax: plot_grid(np.zeros(4), (2, 2), ax=ax),
    ):
        ax = Figure().add_subplot()
        assert draw(ax) is ax


def loaded(code: str) -> list[str]:
    """Run code in a fresh interpreter and return which of the optional modules it loaded."""
    wanted = ("matplotlib", "matplotlib.pyplot", "networkx", "scipy.optimize")
    code += f"\nimport sys; print(*[m for m in {wanted!r} if m in sys.modules])"
    env = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_figure_is_shown_without_further_words(before: bl.InferenceResult) -> None:
    """Notebooks show what pyplot has open at the end of a cell; axes that are given stay where they are."""
    ax = plot_marginals(before, ["HISTORY"])
    assert isinstance(ax.figure, Figure)
    assert plt.get_fignums() == [ax.figure.number] and plt.gca() is ax
    own = Figure().add_subplot()
    assert plot_marginals(before, ["HISTORY"], ax=own) is own and plt.get_fignums() == [ax.figure.number]


def test_importing_plot_loads_nothing_optional() -> None:
    assert loaded("import beliefs.plot") == []


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, after: bl.InferenceResult) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in (plot_marginals, plot_network):
        with pytest.raises(bl.UnsupportedError, match=r"beliefs\[plot\]"):
            draw(after)


def test_pictures_of_rows_and_filters() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(2, size=(5, 6))
    drawn = plot_images(rows, (2, 3), n_columns=3)
    shown: Any = drawn.images[0].get_array()
    canvas = np.asarray(shown.filled(np.nan))
    assert canvas.shape == (2 * 3 + 1, 3 * 4 + 1)
    np.testing.assert_array_equal(canvas[4:6, 5:8], rows[4].reshape(2, 3))
    assert np.isnan(canvas[3:7, 4]).all() and np.isnan(canvas[3, :9]).all()  # framed
    assert not canvas[4:, 9:].any()  # no sixth picture
    machine = bl.RBM(rng.normal(size=(6, 4)))
    filters = plot_filters(machine, (2, 3), units=[2, 0], n_columns=2).images[0]
    np.testing.assert_array_equal(np.asarray(filters.get_array())[1:3, 1:4], machine.weights[:, 2].reshape(2, 3))
    assert filters.get_clim()[0] == -filters.get_clim()[1]
    with pytest.raises(bl.ModelError, match=r"rows must have shape \(N, 8\) for pictures of 2 x 4, found \(5, 6\)"):
        plot_images(rows, (2, 4))
    with pytest.raises(bl.ModelError, match="units must be numbers of hidden units below 4"):
        plot_filters(machine, (2, 3), units=[4])

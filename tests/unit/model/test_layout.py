"""Layouts: offsets, tied tables, conditioned layouts, kept plans; one check of everything that comes in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.model.plans import Plans

CARD, PTR, VARS = [2, 3, 4], [0, 2, 2, 3, 5], [1, 0, 2, 0, 2]  # scopes (1, 0), (), (2,), (0, 2)


def test_offsets_worked_by_hand() -> None:
    lay = bl.Layout.build(CARD, PTR, VARS)
    assert (lay.n_vars, lay.n_factors, lay.n_edges, lay.n_states, lay.n_cells) == (3, 4, 5, 9, 6 + 1 + 4 + 8)
    assert lay.factor_size.tolist() == [6, 1, 4, 8] and lay.cell_ptr.tolist() == [0, 6, 7, 11]
    assert lay.state_ptr.tolist() == [0, 2, 5, 9] and lay.table_ptr.tolist() == [0, 6, 7, 11, 19]
    assert lay.edge_factor.tolist() == [0, 0, 2, 3, 3]
    assert lay.var_ptr.tolist() == [0, 2, 3, 5] and lay.var_edges.tolist() == [1, 3, 0, 2, 4]
    assert lay.scope(0).tolist() == [1, 0] and lay.shape(0) == (3, 2) and lay.cells(3) == slice(11, 19)
    assert lay.scope(1).size == 0 and lay.shape(1) == () and not lay.tied


def test_every_array_is_int64_contiguous_and_read_only() -> None:
    lay = bl.Layout.build(np.array(CARD, np.int32), PTR, VARS)
    for name in ("card", "scope_ptr", "scope_vars", "cell_ptr", "factor_size", "state_ptr", "table_ptr", "var_ptr"):
        array = getattr(lay, name)
        assert array.dtype == np.int64 and array.flags.c_contiguous and not array.flags.writeable


def test_nothing_at_all_is_a_layout() -> None:
    lay = bl.Layout.build([], [0], [])
    assert (lay.n_vars, lay.n_factors, lay.n_cells, lay.n_states) == (0, 0, 0, 0)


def test_tied_tables_share_a_run() -> None:
    lay = bl.Layout.build([2, 2, 2], [0, 2, 4, 5], [0, 1, 1, 2, 0], [0, 0, 4])
    assert lay.n_cells == 6 and lay.tied and lay.table_ptr.tolist() == [0, 4, 8, 10]


@pytest.mark.parametrize("starts", [[0, 2, 4], [0, 5, 9], [1, 1, 5], [0, 0, 0]])
def test_runs_of_cells_follow_one_another(starts: list[int]) -> None:
    """Overlapping, leaving a gap, not starting at 0, and tied with another size."""
    with pytest.raises(bl.ModelError, match="tied factors must share whole runs of cells"):
        bl.Layout.build([2, 2, 2], [0, 2, 4, 5], [0, 1, 1, 2, 0], starts)


@pytest.mark.parametrize(
    "card, ptr, scopes, message",
    [
        ([2, 0], [0], [], "variable 1 needs at least one state, found cardinality 0"),
        ([2, 2], [0, 1], [2], r"a scope names variable 2, but the model has variables 0\.\.1"),
        ([2, 2], [0, 1], [-1], "a scope names variable -1"),
        ([2, 2], [0, 1, 4], [0, 1, 0, 1], r"factor 1 has a variable twice in its scope \(1, 0, 1\)"),
        ([2.5], [0], [], "cardinalities must be integers"),
        (["a"], [0], [], "cardinalities must be integers"),
        ([2], [0, 1], [0.0], "scopes must be integers"),
    ],
)
def test_malformed_structure_is_refused(card: Any, ptr: Any, scopes: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        bl.Layout.build(card, ptr, scopes)


def test_equality_is_by_content() -> None:
    one, two = bl.Layout.build(CARD, PTR, VARS), bl.Layout.build(CARD, PTR, VARS)
    assert one is not two and one.equals(two)
    assert not one.equals(bl.Layout.build([2, 3, 5], PTR, VARS))
    assert not one.equals(one.conditioned(np.array([True, False, False])))
    alone = bl.Layout.build([2, 2], [0, 1], [0])  # observing a variable of no factor changes no scope
    assert not alone.equals(alone.conditioned(np.array([False, True])))


def test_a_plan_is_made_once() -> None:
    lay = bl.Layout.build(CARD, PTR, VARS)
    made: list[str] = []

    def make(layout: bl.Layout, *arguments: object) -> list[object]:
        made.append("plan")
        return [layout, *arguments]

    found = lay.plan(make, np.arange(3), "word")
    assert found is lay.plan(make, np.arange(3), "word") and made == ["plan"]
    assert found[0] is lay and found[2] == "word"
    for other in ((np.arange(1, 4), "word"), (np.arange(3), "another"), ()):
        assert lay.plan(make, *other) is not found
    assert len(made) == 4
    lay.plan(lambda layout, *arguments: None, np.arange(3), "word")  # another maker, another plan
    assert lay.plan(make, np.arange(3), "word") is found


def test_plans_least_recently_used_are_dropped_first() -> None:
    lay = bl.Layout.build(CARD, PTR, VARS)
    for k in range(31):
        lay.keep((int, k), lambda k=k: k)  # type: ignore[misc]
    lay.keep((str, "wanted"), lambda: 0)
    for k in range(100, 140):
        lay.keep((str, "wanted"), lambda: 1)
        lay.keep((int, k), lambda: 2)
    assert lay.keep((str, "wanted"), lambda: 3) == 0 and lay.keep((int, 0), lambda: "made again") == "made again"


def test_conditioned_layouts_are_kept() -> None:
    lay = bl.Layout.build(CARD, PTR, VARS)
    mask = np.array([False, True, False])
    part = lay.conditioned(mask)
    assert part is lay.conditioned(mask.copy()) and part is not lay.conditioned(~mask)
    assert [part.scope(f).tolist() for f in range(4)] == [[0], [], [2], [0, 2]]
    assert part.n_factors == 4 and part.observed.tolist() == mask.tolist() and part.n_cells == 2 + 1 + 4 + 8


def test_a_plan_is_shared_by_all_graphs_of_one_structure_and_by_all_evidence_on_one_set() -> None:
    graph = bl.FactorGraph.from_tables([2, 2, 2], [((0, 1), np.ones((2, 2))), ((1, 2), np.ones((2, 2)))])
    other = graph.with_theta(np.arange(8.0))
    assert other.layout is graph.layout
    assert graph.condition({0: 0}).layout is other.condition({0: 1}).layout


def test_tables_find_their_cells_in_whatever_order_these_lie() -> None:
    """Cells of the second factor first: expected statistics must still be the gradient of log Z."""
    layout = bl.Layout.build([2, 3], [0, 1, 2], [0, 1], [3, 0])
    assert not layout.tied
    assert layout.table_cells().tolist() == [3, 4, 0, 1, 2]
    assert layout.in_cells(np.arange(5.0)).tolist() == [2, 3, 4, 0, 1]
    graph = bl.FactorGraph.build(layout, np.log([1.0, 2.0, 3.0, 1.0, 4.0]))
    np.testing.assert_allclose(bl.infer(graph, "enumeration").mu, [1 / 6, 2 / 6, 3 / 6, 0.2, 0.8])


class _Interrupted(Plans):
    """Kept plans that another thread gets at in the middle of a look-up, unless it is kept out."""

    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], None] | None = None

    def get(self, key: Any, default: Any = None, /) -> Any:  # type: ignore[override]
        found = super().get(key, default)
        if found is not default and self.between is not None:
            between, self.between = self.between, None
            other = threading.Thread(target=between)
            other.start()
            other.join(0.3)  # it ends at once, or waits for this one
            self.waited_for = other
        return found


def test_a_plan_that_another_thread_drops_meanwhile_is_still_there() -> None:
    plans = _Interrupted()
    layout = replace(bl.Layout.build([2, 2], [0, 2], [0, 1]), _plans=plans)
    assert layout.keep((int, "mine"), lambda: 7) == 7

    def crowd() -> None:
        for k in range(100):
            layout.keep((int, k), lambda: None)

    plans.between = crowd
    assert layout.keep((int, "mine"), lambda: 8) == 7
    plans.waited_for.join()
    assert (int, "mine") not in plans and len(plans) <= 32


def test_threads_that_make_the_same_plan_share_the_first() -> None:
    layout, both = bl.Layout.build([2, 2], [0, 2], [0, 1]), threading.Barrier(2)

    def make() -> object:
        both.wait(60)
        return object()

    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(layout.keep((object, "same"), make))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is layout.keep((object, "same"), object)

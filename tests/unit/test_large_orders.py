"""Elimination on adjacency lists, which large components take."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.orders import search as order_search
from beliefs.inference.orders.orders import plan_order
from beliefs.kernels.orders.sparse import sparse_elimination


@pytest.mark.parametrize("staged", [False, True])
def test_lists_that_are_moved_together_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, staged: bool) -> None:
    monkeypatch.setattr(order_search, "BITS_LIMIT", 100)
    monkeypatch.setattr(order_search, "_PLACES", 0)  # the pool is full soon
    layout = bl.datasets.make_ising_grid(60).layout
    stage = np.arange(layout.n_vars) % 2 if staged else None
    found = plan_order(layout.card, layout.scope_ptr, layout.scope_vars, stage=stage)

    def roomy(model, scores, cells, ops, scratch, pool, order):
        never_full = np.empty(10**7, np.uint32)
        return sparse_elimination(model, scores, cells, ops, scratch, never_full, order)

    monkeypatch.setattr(order_search, "sparse_elimination", roomy)
    again = plan_order(layout.card, layout.scope_ptr, layout.scope_vars, stage=stage)
    assert found.order.tolist() == again.order.tolist()

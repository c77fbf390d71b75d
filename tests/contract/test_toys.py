"""Adding a method is one file and one row: a toy from outside the package is found wherever methods are."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import beliefs as bl
from beliefs.cli import commands
from beliefs.cli.warmup import jobs
from beliefs.driver import Value
from beliefs.inference import Bound, Method, Task
from beliefs.inference import registry as registry_module
from beliefs.inference.base import Derivative, Guarantee, Marginals, Problem, claimed, observed_point_masses
from beliefs.inference.text import parse_method
from beliefs.learning.gradients import Perturbation, make_gradient
from beliefs.options import check_integer
from families import FAMILIES, family


@dataclass(frozen=True, kw_only=True, repr=False)
class UniformBound(Method):
    """Jensen's inequality at the uniform distribution: the mean score and the entropy are at most log Z."""

    digits: int = 12

    name: ClassVar[str] = "uniform_bound"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.LOWER, "(tight for constant models)")
    cost: ClassVar[str] = "cells"
    reference: ClassVar[str] = "jensen1906"
    price: ClassVar[float] = 3.0
    variants = {Task.INFER: ("digits=9",)}

    def __post_init__(self) -> None:
        check_integer("digits", self.digits, 1, 15)

    def init(self, problem: Problem, warm: Any = None) -> Problem:
        return problem

    def step(self, state: Problem) -> float:
        return 0.0

    def value(self, state: Problem) -> Value:
        graph, layout = state.graph, state.graph.layout
        score = sum(float(np.mean(graph.theta[layout.cells(f)])) for f in range(layout.n_factors))
        entropy = float(np.log(layout.card[~layout.observed]).sum())
        lower = score + entropy
        lower -= 10.0**-self.digits * abs(lower) if math.isfinite(lower) else 0.0
        return Value(lower, lower)

    def finish(self, state: Problem) -> Marginals:
        layout, value = state.graph.layout, self.value(state)
        hidden = np.repeat(~layout.observed, layout.card)
        mu_var = np.where(hidden, np.repeat(1.0 / layout.card, layout.card), observed_point_masses(state.graph))
        tables = np.repeat(1.0 / layout.factor_size, layout.factor_size)
        return Marginals(value.log_z, claimed(value), mu_var, tables, value.lower, value.upper)


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one row."""
    monkeypatch.setattr(registry_module, "METHODS", (*registry_module.METHODS, UniformBound))


def contract() -> ModuleType:
    """The checks that every method meets."""
    spec = importlib.util.spec_from_file_location("contract_of_methods", Path(__file__).with_name("test_methods.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("row")
class TestMethod:
    def test_it_is_in_the_table(self) -> None:
        assert UniformBound in bl.methods(task="infer", guarantee="lower") and UniformBound not in bl.methods("sample")
        assert "| `uniform_bound` | infer | lower bound (tight for constant models) |" in bl.methods().markdown()
        shown = CliRunner().invoke(commands, ["methods", "--task", "infer"]).stdout
        assert "uniform_bound" in shown

    def test_its_text_is_read_by_doors_and_by_learning(self) -> None:
        assert parse_method("uniform_bound(digits=3)") == UniformBound(digits=3)
        assert repr(bl.infer(family("grid"), "uniform_bound(digits=3)").method) == "uniform_bound(digits=3)"
        with pytest.raises(bl.ModelError, match="no method 'uniform_bond'.*uniform_bound"):
            bl.infer(family("grid"), "uniform_bond")
        with pytest.raises(bl.UnsupportedError, match="uniform_bound does not answer sample; use one of"):
            bl.sample(family("grid"), 1, "uniform_bound")

    def test_it_is_compiled_ahead(self) -> None:
        names = [name for name, _ in jobs()]
        assert "infer with uniform_bound, a loop" in names and "infer with uniform_bound(digits=9), 4 states" in names

    def test_what_it_declares_is_what_is_asked(self) -> None:
        grid = family("grid")
        assert UniformBound().step_cells(Problem(grid)) == 3.0 * float(grid.layout.table_ptr[-1]) + 3e3
        assert UniformBound.derivative is Derivative.DIFFERENCES
        assert isinstance(make_gradient("auto", UniformBound()), Perturbation)
        with pytest.raises(bl.UnsupportedError, match="no way back through uniform_bound; use bp, trw"):
            make_gradient("truncated", UniformBound(), n_sweeps=2)

    @pytest.mark.parametrize("name", FAMILIES)
    def test_it_meets_the_contract(self, name: str) -> None:
        checks = contract().TestInfer()
        for observed in (0, 2):
            for check in (check for check in dir(checks) if check.startswith("test_")):
                if "agree" not in check and "warm" not in check:  # promised by exact and by fixed-point methods
                    getattr(checks, check)(UniformBound(), name, observed)

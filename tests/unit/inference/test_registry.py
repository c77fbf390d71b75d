"""The written list of methods, what each row says, and the words for bounds and budgets."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference import Bound, Method, Task
from beliefs.inference.base import Derivative, Guarantee, zero_probability
from beliefs.inference.budget import available_bytes, default_budget, readable_bytes
from families import family, sprinkler


@pytest.mark.parametrize("cls", bl.METHODS, ids=lambda cls: cls.name)
def test_every_method_states_what_it_does_as_data(cls: type[Method]) -> None:
    assert cls.name.islower() and cls.name.isidentifier() and cls.tasks and set(cls.tasks) <= set(Task)
    assert cls.guarantee and cls.cost and cls.reference and cls.__doc__
    assert isinstance(cls.guarantee, Guarantee) and cls.guarantee.gives(cls.guarantee.bound)
    assert cls.warm_startable == (cls.warm_state is not Method.warm_state) and cls.price > 0
    assert set(cls.variants) <= set(cls.tasks) and (cls.derivative is Derivative.NONE or Task.INFER in cls.tasks)
    assert pickle.loads(pickle.dumps(cls.guarantee)).note == cls.guarantee.note
    assert dataclasses.is_dataclass(cls) and cls() == cls()
    with pytest.raises(dataclasses.FrozenInstanceError):
        cls().name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        cls("positional")  # type: ignore[call-arg]


def test_names_are_unique_and_auto_is_not_one_of_them() -> None:
    names = [cls.name for cls in bl.METHODS]
    assert len(set(names)) == len(names) and "auto" not in names
    assert {"enumeration", "elimination", "junction_tree", "bp"} <= set(names)


def test_the_table_selects_and_prints() -> None:
    assert [m.name for m in bl.methods()] == [cls.name for cls in bl.METHODS]
    assert all(Task.SAMPLE in m.tasks for m in bl.methods(task="sample"))
    assert bl.BP not in bl.methods(task="sample") and bl.JunctionTree in bl.methods(guarantee="EXACT")
    lines = repr(bl.methods(task="infer")).split("\n")
    assert lines[0].split() == ["method", "answers", "guarantee", "cost", "reference"]
    assert len(lines) == 1 + len(bl.methods(task="infer")) and lines[1].startswith("enumeration")
    with pytest.raises(bl.ModelError, match="no task 'guess'; tasks are infer, maximize, marginal_map, sample"):
        bl.methods(task="guess")
    with pytest.raises(bl.ModelError, match="no guarantee 'true'; guarantees are exact, upper, lower, estimate"):
        bl.methods(guarantee="true")


def test_the_old_name_of_a_warm_state_is_understood() -> None:
    with pytest.warns(DeprecationWarning, match="Old.kept is called warm_state"):

        class Old(bl.BP):
            def kept(self, state: object) -> object:
                return "old"

    old: Any = Old()
    assert old.warm_state(None) == "old"
    with pytest.warns(DeprecationWarning, match="called warm_state"):
        assert bl.Enumeration().kept(None) is None


def test_the_sign_of_a_bound_stands_between_truth_and_value() -> None:
    assert [b.sign for b in (Bound.EXACT, Bound.UPPER, Bound.LOWER, Bound.ESTIMATE)] == ["=", "<=", ">=", "~"]
    assert str(Bound.UPPER) == "UPPER"


def test_zero_probability_names_the_evidence_and_at_most_six_of_it() -> None:
    graph = bl.FactorGraph.from_tables([2] * 8, [])
    text = str(zero_probability(graph.condition(dict.fromkeys(range(8), 1))))
    assert text == "the evidence has probability zero: x0=1, x1=1, x2=1, x3=1, x4=1, x5=1, ..."
    assert str(zero_probability(sprinkler().condition({"Grass": "wet"}))).endswith("zero: Grass=wet")
    assert "Z = 0" in str(zero_probability(graph))


def test_the_default_budget_is_half_of_what_is_available_and_kept_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([10**6, 10**7])
    monkeypatch.setattr("beliefs.inference.budget._last", (-1.0, 0))
    monkeypatch.setattr("beliefs.inference.budget.available_bytes", lambda: next(free))
    assert default_budget() == 500_000 == default_budget()


def test_a_containers_limit_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(used: int | None) -> None:
        limited = ("memory.max", "limit_in_bytes")
        answer = {True: None if used is None else 10**6, False: used}
        monkeypatch.setattr("beliefs.inference.budget._number", lambda path: answer[path.endswith(limited)])

    for used, left in ((2 * 10**6, 0), (10**5, 900_000)):
        files(used)
        assert available_bytes() == left
    files(None)  # no such files: the machine's own memory
    assert available_bytes() > 900_000


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "0 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (3.2e6, "3.2 MB"),
        (1e9, "1 GB"),
        (2e12, "2 TB"),
        (9.2e18, "9.22e+03 PB"),
    ],
)
def test_bytes_are_readable(count: float, text: str) -> None:
    assert readable_bytes(float("inf")) == "more than 1e293 PB"
    assert readable_bytes(count).split()[1] == text.split()[1]
    assert float(readable_bytes(count).split()[0]) == pytest.approx(float(text.split()[0]), rel=0.01)


def test_seeds_and_threads_do_not_change_exact_answers() -> None:
    results = [bl.infer(family("grid"), "junction_tree", seed=s, threads=t) for s in (0, 5) for t in (1, 2)]
    assert len({r.log_z for r in results}) == 1 and len({r.mu.tobytes() for r in results}) == 1
    assert np.isfinite(results[0].log_z)

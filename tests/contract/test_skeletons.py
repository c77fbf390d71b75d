"""The skeletons of CONTRIBUTING.md run through the contract suite, as what grows from them will.

A skeleton is the one block of Python in its section. It is written to a file of its own, imported, and handed to the
tests of the suite, which are called as functions.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import beliefs as bl
from beliefs.kernels._interpreted import interpreted
from beliefs.learning.losses import registry as losses
from families import FAMILIES
from strategies import examples, factor_graphs

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = (ROOT / "CONTRIBUTING.md").read_text().split("\n## I want to add ")[1:]
SKELETONS = {
    re.sub(r"^an? ", "", section.partition("\n")[0]): section.partition("```python\n")[2].partition("```")[0]
    for section in SECTIONS
}


def imported(path: Path, name: str) -> ModuleType:
    """A file as a module that pickles and dataclasses can find."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def skeleton(what: str, folder: Path) -> ModuleType:
    path = folder / f"skeleton_{what.replace(' ', '_')}.py"
    path.write_text(SKELETONS[what])
    return imported(path, path.stem)


def suite(path: str) -> Any:
    """A file of the tests, to call its functions."""
    return imported(ROOT / "tests" / path, f"suite_{Path(path).stem}")


def test_every_way_to_add_something_has_its_skeleton() -> None:
    assert set(SKELETONS) == {"method", "loss", "estimator", "file format", "kernel"}


def test_a_method(tmp_path: Path) -> None:
    cls, contract = skeleton("method", tmp_path).BruteForce, suite("contract/test_methods.py")
    suite("unit/inference/test_registry.py").test_every_method_states_what_it_does_as_data(cls)
    checks = [check for name, check in vars(contract.TestInfer).items() if name.startswith("test_")]
    assert len(checks) == 5
    for check in checks:
        for name in FAMILIES:
            for observed in contract.OBSERVED:
                check(contract.TestInfer(), cls(), name, observed)
    with pytest.raises(bl.ZeroProbabilityError):
        bl.infer(bl.FactorGraph.from_tables([2], [((0,), [0.0, 0.0])]), cls())


def test_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cls, contract = skeleton("loss", tmp_path).FactorByFactor, suite("contract/test_losses.py")
    monkeypatch.setattr(losses, "LOSSES", (*losses.LOSSES, cls))
    for name in contract.FAMILIES:
        contract.test_the_gradient_is_that_of_the_value(cls, name, 0)
        contract.test_a_constant_added_to_a_factor_changes_nothing(cls, name, 0)
    contract.test_threads_change_no_byte(cls)
    contract.test_a_chain_and_its_mirror_image_cost_the_same(cls)


def test_an_estimator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, contract = skeleton("estimator", tmp_path).RingCRF, suite("unit/learning/test_estimator_contract.py")

    def instances(_: Any, n: int = 6) -> tuple[list[Any], list[Any]]:
        X, Y = contract.images(n)
        return [x.reshape(-1, 1) for x in X], [y.ravel() for y in Y]

    monkeypatch.setattr(contract, "instances", instances)
    contract.test_arguments_are_kept_unchanged(kind)
    contract.test_what_is_not_fitted_does_not_answer(kind)
    contract.test_searches_and_cross_validation(kind)
    contract.test_a_fitted_model_survives_pickling(kind)
    with pytest.raises(bl.ModelError, match="instance 0: a ring has at least 3 vertices, found 2"):
        kind().fit([np.zeros((2, 1))], [np.zeros(2, int)])


def test_a_file_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form, contract = skeleton("file format", tmp_path), suite("contract/test_io_fuzz.py")

    @examples(60)
    @given(factor_graphs(scales=(1.0, 0.0, 1e-9, 1e5)))
    def round_trip(graph: bl.FactorGraph) -> None:
        again = form.loads(form.dumps(graph))
        assert again.layout.equals(graph.layout) and again.theta.tobytes() == graph.theta.tobytes()

    round_trip()
    text = form.dumps(bl.io.uai.loads(contract.UAI)).encode()
    monkeypatch.setattr(contract, "KINDS", {**contract.KINDS, "skeleton": (form.loads, text)})
    monkeypatch.setattr(contract, "CASES", 1000)
    contract.test_only_format_errors_come_out("skeleton")


def test_a_kernel(tmp_path: Path) -> None:
    kernel = skeleton("kernel", tmp_path).segment_log_sums
    for part in ("Equivalent to", "Shapes", "Cost", "Numerics"):
        assert f"\n    {part}" in kernel.__doc__
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 1e3, 1e200):
        logs = scale * rng.normal(size=40)
        logs[rng.random(40) < 0.3] = -np.inf
        ptr = np.array([0, 0, 1, 9, 9, 25, 40])
        logs[1:9] = -np.inf
        found, again = np.empty(6), np.empty(6)
        kernel(logs, ptr, found)
        interpreted(kernel)(logs, ptr, again)
        truth = [np.logaddexp.reduce(logs[a:b]) for a, b in zip(ptr, ptr[1:])]
        np.testing.assert_allclose(found, truth, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(again, truth, rtol=1e-14, atol=1e-14)

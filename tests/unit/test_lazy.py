"""Names that are loaded at their first use: packages answer for their modules whether or not anything loaded them."""

import subprocess
import sys

import pytest

import beliefs as bl


@pytest.mark.parametrize("path", ["io.bif", "io.wcsp", "inference.text", "cycles", "report", "lazy"])
def test_a_module_of_a_package_is_its_attribute_in_a_fresh_process(path: str) -> None:
    code = f"import beliefs as bl; print(bl.{path}.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.stderr) == (f"beliefs.{path}", "")


def test_a_name_that_is_nowhere_is_an_attribute_error() -> None:
    for package in (bl, bl.io, bl.inference):
        with pytest.raises(AttributeError, match="has no attribute 'zebra'"):
            package.zebra  # noqa: B018
        with pytest.raises(AttributeError, match="has no attribute '_zebra'"):
            package._zebra  # noqa: B018


@pytest.mark.parametrize("name", ["zebra.stripes", "io.uai", "", "infer "])
def test_what_is_no_name_is_no_attribute(name: str) -> None:
    assert not hasattr(bl, name)

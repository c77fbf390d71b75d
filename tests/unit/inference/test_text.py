"""Methods as text: repr gives the text, the text gives the method, and mistakes are answered in one line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
from beliefs.inference.text import parse_method
from families import family
from strategies import examples


def parse(text: str) -> bl.Method:
    return parse_method(text, bl.METHODS)


@pytest.mark.parametrize("cls", bl.METHODS, ids=lambda cls: cls.name)
def test_a_default_method_is_its_name(cls: type[bl.Method]) -> None:
    assert repr(cls()) == cls.name and parse(cls.name) == cls() and parse(f" {cls.name}() ") == cls()


@pytest.mark.parametrize(
    "method, text",
    [
        (bl.BP(damping=0.25), "bp(damping=0.25)"),
        (bl.BP(damping=np.float64(0.25)), "bp(damping=0.25)"),
        (bl.BP(damping=1e-05), "bp(damping=1e-05)"),
        (bl.JunctionTree(order="min_fill"), "junction_tree(order=min_fill)"),
        (bl.JunctionTree(order="min_degree", restarts=3), "junction_tree(order=min_degree, restarts=3)"),
        (bl.JunctionTree(restarts=np.int64(3)), "junction_tree(restarts=3)"),  # type: ignore[arg-type]
        (bl.Elimination(order="min_weight"), "elimination(order=min_weight)"),
    ],
    ids=repr,
)
def test_there_and_back(method: bl.Method, text: str) -> None:
    assert repr(method) == text and parse(text) == method and repr(parse(text)) == text


@given(st.floats(0, 1, exclude_max=True))
@examples(50)
def test_every_float_comes_back_to_the_last_bit(damping: float) -> None:
    assert parse(repr(bl.BP(damping=damping))) == bl.BP(damping=damping)


def test_a_field_at_its_default_is_not_shown_but_may_be_written() -> None:
    assert parse("junction_tree(order=auto, restarts=None)") == bl.JunctionTree()
    assert parse("bp(damping=0)") == bl.BP() and repr(bl.BP(damping=0)) == "bp"


def test_arrays_print_their_shape() -> None:
    assert repr(bl.Elimination(tau=np.ones(4))) == "elimination(tau=<array (4,)>)"
    assert repr(bl.Elimination(order=[2, 0, 1])) == "elimination(order=<3 items>)"


def test_the_doors_take_text() -> None:
    assert bl.infer(family("tree"), " bp( damping = 0.3 ) ").method == bl.BP(damping=0.3)
    assert bl.infer(family("tree"), " auto ").method == bl.JunctionTree()


@pytest.mark.parametrize(
    "text, message",
    [
        ("jt", r"no method 'jt'; here it is junction_tree \(known: auto, enumeration, elimination, junction_tree, bp"),
        ("zebra", r"no method 'zebra' \(known: auto, enumeration, elimination, junction_tree, bp"),
        ("junction_three", "did you mean 'junction_tree'?"),
        ("bp(dampin=0.2)", "bp has no option 'dampin'; did you mean 'damping'?"),
        ("bp(ibound=3)", "bp has no option 'ibound'; it has damping"),
        ("enumeration(size=3)", "enumeration has no option 'size'; it has none"),
        ("bp(0.2)", "options of bp are written field=value; its fields are damping"),
        ("bp(damping=1)", r"damping must be in \[0, 1\), found 1"),
        ("bp(damping=-0.1)", r"damping must be in \[0, 1\), found -0.1"),
        ("bp(damping=high)", r"damping must be in \[0, 1\), found 'high'"),
        ("bp(damping=True)", r"damping must be in \[0, 1\), found True"),
        ("bp(damping=[0.1])", "option 'damping' must be a number, True, False, None or a word"),
        ("bp(damping=1+1)", "option 'damping' must be a number"),
        ("bp(damping=0.1, damping=0.2)", "option 'damping' of bp is given twice"),
        ("bp(**x)", "bp has no option None"),
        ("junction_tree(order=best)", "order must be one of auto, min_fill"),
        ("junction_tree(restarts=-1)", "restarts must be an integer of at least 0, found -1"),
        ("junction_tree(restarts=many)", "restarts must be None or an integer of at least 0, found 'many'"),
        ("junction_tree(restarts=1.5)", "restarts must be None or an integer"),
        ("elimination(order=3)", "order must be one of .* or a list"),
        ("", r"a method is written name\(field=value, ...\), found ''"),
        ("bp(", r"a method is written name\(field=value, ...\), found"),
        ("bp; import os", r"a method is written name\(field=value, ...\), found"),
        ("__import__('os')", "no method '__import__'"),
        ("bl.BP()", r"a method is written name\(field=value, ...\), found"),
        ("auto()", "auto has no options and is written without parentheses"),
        ("auto(damping=0.1)", "auto has no options and is written without parentheses"),
        ("bp(damping={[]:1})", "option 'damping' must be a number"),
        ("b" * 3000, r"no method 'b{60}\.\.\.' \(known: "),
        ("3", r"a method is written name\(field=value, ...\), found '3'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(text: str, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message) as caught:
        bl.infer(family("chain"), text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("depth", [100, 5000, 20000, 200000])
@pytest.mark.parametrize("start, end", [("-", ""), ("(", ")"), ("[", "]"), ("1+", "")])
def test_a_deeply_nested_value_is_one_short_line(depth: int, start: str, end: str) -> None:
    text = f"bp(damping={start * depth}1{end * depth})"
    with pytest.raises(bl.ModelError) as caught:
        parse(text)
    assert len(str(caught.value)) < 200


@given(st.text(max_size=40))
@examples(200)
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        assert isinstance(parse(text), bl.Method)
    except bl.ModelError as error:
        assert str(error)

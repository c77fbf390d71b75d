"""Ergo files: the worked example and every way to be wrong with its line."""

from __future__ import annotations

import pytest

from beliefs.errors import FormatError
from beliefs.io import erg, uai

MODEL = """2
2 3
1 1
0
/* Probabilities */
6
 .1 .9
 .2 .8
 .3 .7
3
 .5 .25 .25
/* Names */
rain
grass
/* Labels */
no yes
dry damp wet
"""


def test_worked_example() -> None:
    graph = erg.loads(MODEL)
    assert [v.name for v in graph.variables] == ["rain", "grass"]
    assert graph.variables[1].states == ("dry", "damp", "wet")
    assert graph.layout.scope(0).tolist() == [1, 0]
    assert graph.factors[0].table[2].tolist() == pytest.approx([0.3, 0.7])
    same = uai.loads("BAYES 2  2 3  2  2 1 0  1 1  6 .1 .9 .2 .8 .3 .7  3 .5 .25 .25")
    assert graph.theta.tolist() == same.theta.tolist()
    assert graph.kind == "BAYES"


def test_names_may_be_left_out() -> None:
    assert erg.loads(MODEL[: MODEL.index("/* Names")]).variables[1].name == "x1"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected the number of variables, found the end of the file"),
        (MODEL.replace("1 1\n0", "1 0\n0"), 3, "variable 0 is its own parent"),
        (MODEL.replace("1 1\n0", "2 1 1\n0"), 3, "factor 0 has variable 1 twice in its scope"),
        (MODEL.replace("\n6\n", "\n5\n"), 6, "expected 6 as the table size of factor 0, found '5'"),
        (MODEL.replace(".25 .25", ".25 x"), 11, "expected a number as entry 2 of the table of factor 1, found 'x'"),
        (MODEL.replace("grass", "rain"), 13, "two variables have the name 'rain'"),
        (MODEL.replace("damp", "dry"), 13, "variable 'grass' has the state 'dry' twice"),
        (MODEL.replace(" wet", ""), 17, "expected a state label of grass, found the end of the file"),
        (MODEL + "more", 18, "expected the end of the file, found 'more'"),
    ],
)
def test_malformed(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        erg.loads(text)
    assert caught.value.line == line

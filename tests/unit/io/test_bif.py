"""BIF: the grammar's corners, exotic names, and every way to be wrong with its line."""

from __future__ import annotations

from typing import Any

import pytest

from beliefs.errors import FormatError, ModelError
from beliefs.io import bif, uai
from beliefs.model import BayesianNetwork, FactorGraph, Variable

DOG = """// a comment
network "Dog-Problem" { //5 variables
  property "credal-set constant-density-bounded 1.1";
  property author = "A. Nonymous";
}
variable  rain { // 2 values
  type discrete[2] {  no  yes };
  property "position = (73, 165)" ;
}
variable "wet grass" {
  property weight = 3;
  type discrete [ 3 ] { <5, 5-12, "12+ (very; wet)" };
}
/* the tables
   follow */
probability ( rain ) { table 0.8, 0.2; }
probability ( "wet grass" | rain ) {
  (yes) 1e-1 .2 0.7;
  (no) 0.5, 0.25, 0.25;
}
"""


def test_the_grammar() -> None:
    network = bif.loads(DOG)
    assert [v.name for v in network.variables] == ["rain", "wet grass"]
    assert network.variables[1].states == ("<5", "5-12", "12+ (very; wet)")
    assert network.parents("wet grass") == ("rain",)
    assert network.cpt("wet grass").tolist() == [[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]
    assert network.properties == {
        "name": "Dog-Problem",
        "credal-set constant-density-bounded 1.1": "",
        "author": '"A. Nonymous"',
        "rain.position": "(73, 165)",
        "wet grass.weight": "3",
    }


def parents(*names: str, body: str, states: str = "a, b", k: int = 2) -> str:
    """A network of binary parents and a child c."""
    blocks = [
        f"variable {p} {{ type discrete [2] {{ u, v }}; }}\nprobability ( {p} ) {{ table .5 .5; }}" for p in names
    ]
    given = " | " + ", ".join(names) if names else ""
    child = f"variable c {{ type discrete [{k}] {{ {states} }}; }}\nprobability ( c{given} ) {{\n{body}\n}}\n"
    return "network n {}\n" + "\n".join([*blocks, child])


def test_a_table_has_the_child_slowest() -> None:
    """As written: all of p(c=a | p, q), the last parent fastest, then all of p(c=b | p, q)."""
    network = bif.loads(parents("p", "q", body="table .1 .2 .3 .4 .9 .8 .7 .6;"))
    assert network.cpt("c").tolist() == [[[0.1, 0.9], [0.2, 0.8]], [[0.3, 0.7], [0.4, 0.6]]]


def test_default_fills_the_columns_that_no_row_gives() -> None:
    network = bif.loads(parents("p", "q", body="(v, u) .1 .9; default .5 .5; (u, v) 0 1;"))
    assert network.cpt("c").tolist() == [[[0.5, 0.5], [0.0, 1.0]], [[0.1, 0.9], [0.5, 0.5]]]


def test_numbers_that_are_hard_to_round() -> None:
    """Long decimals in a row, a default and a transposed table come out as float gives them."""
    hard = "0.1000000000000000055511151231257827021181583404541015625"
    rest = "0.9000000000000000222044604925031308084726333618164062500000001"
    for body in (f"({{}}) {hard} {rest};".replace("{}", "u") + f"(v) {hard}, {rest};", f"default {hard}, {rest};"):
        assert bif.loads(parents("p", body=body)).cpt("c").tolist() == [[float(hard), float(rest)]] * 2
    table = bif.loads(parents("p", body=f"table {hard} 4.9e-324 {rest} 1;")).cpt("c")
    assert table.tolist() == [[float(hard), float(rest)], [5e-324, 1.0]]


def test_variables_may_be_declared_after_their_use() -> None:
    text = "probability (a|b) { (x) 1 0; (y) 0 1; }\nvariable a { type discrete [2] {s t}; }\n"
    text += "probability (b) {table .5 .5;} variable b {type discrete [2] {x y};} "
    assert bif.loads(text).parents("a") == ("b",)


@pytest.mark.parametrize(
    "name",
    ["if", "table", "a//b", "a/*b", "x=y", "ünïcode", "1.5", "-", "a'b", "\\", "<5"]
    + ["property", "type", "}", "{", ";", "( ", ")", "[", "]", "|", "default", "network", "/* x", "// y", " "],
)
def test_exotic_words_round_trip(name: str) -> None:
    """As a name, as a state, and in the rows of a child."""
    variables = [Variable(name, [name, name + " 2"]), Variable("child", ["a", name])]
    tables: dict[str, Any] = {name: ([], [0.5, 0.5]), "child": ([name], [[0.25, 0.75], [1, 0]])}
    network = BayesianNetwork.from_cpts(variables, tables)
    again = bif.loads(bif.dumps(network))
    assert list(again.variables) == list(network.variables)
    assert again.cpt("child").tolist() == network.cpt("child").tolist()
    assert again.properties == {"name": "unknown"}


def test_a_name_with_a_quote_cannot_be_written() -> None:
    network = BayesianNetwork.from_cpts([Variable('say "hi"', 2)], {'say "hi"': ([], [0.5, 0.5])})
    with pytest.raises(FormatError, match="BIF cannot hold a name with a quote"):
        bif.dumps(network)


def test_properties_round_trip() -> None:
    network = bif.loads(DOG)
    assert bif.loads(bif.dumps(network)).properties == network.properties
    strange = {"name": "a b", "url": "see // here; {or} there", "rain.x = y": "1 /* 2", "plain": ""}
    given = BayesianNetwork.from_cpts([Variable("rain", 2)], {"rain": ([], [0.5, 0.5])}, properties=strange)
    found = bif.loads(bif.dumps(given)).properties
    assert found == {"name": "a b", "url": strange["url"], "rain.x": "y = 1 /* 2", "plain": ""}


def test_a_factor_graph_that_is_a_network_can_be_written() -> None:
    graph = uai.loads("BAYES 2  2 2  2  1 0  2 0 1  2 .9 .1  4 .3 .7 1 0")
    assert "(1) 1, 0;" in bif.dumps(graph)
    assert "table 0.9, 0.1;" in bif.dumps(graph)
    with pytest.raises(ModelError, match="must sum to 1"):
        bif.dumps(FactorGraph.from_tables([2], [((0,), [1, 1])]))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected a network, found an empty file"),
        ("\x00\x01\x02", 1, "expected blocks with balanced braces"),
        ("network n {\n}\n", 1, "expected at least one variable block"),
        ("network n {\n", 1, "expected blocks with balanced braces, found 'network'"),
        ("network n {}\n}", 2, "expected blocks with balanced braces, found '}'"),
        ("network n {}\n/* x", 2, "the comment that starts here has no end"),
        ('network n {}\nvariable "a {', 2, "the quote that starts here has no end"),
        ("network n {}\nnode a {}", 2, "expected network, variable or probability, found 'node'"),
        ("network n {}\nvariable a b { }", 2, "expected the name of a variable and {"),
        ("variable a {\n}", 2, "expected type in the declaration of variable 'a', found '}'"),
        ("variable a {\ntype continuous;\n}", 2, "expected discrete in the declaration of variable 'a'"),
        ("variable a {\ntype discrete [ 0 ] { };\n}", 2, "variable 'a' should have 0 states, found 0 labels"),
        ("variable a {\ntype discrete [ 3 ] { x, y };\n}", 2, "variable 'a' should have 3 states, found 2 labels"),
        ("variable a {\ntype discrete [ k ] { x, y };\n}", 2, "expected the number of states of variable 'a'"),
        ("variable a {\ntype discrete [ 2 ] { x, x };\n}", 2, "variable 'a' has two states of the same name"),
        ("variable a {\ntype discrete [2] {x y};\njunk\n}", 3, "expected property or }, found 'junk'"),
        ("network n {\nproperty x\n}", 3, "expected ; after a property, found '}'"),
        ("variable a {type discrete [1] {x};}\n" * 2, 2, "variable 'a' is declared twice"),
        ("variable a {type discrete [1] {x};}", 1, "variable 'a' has no probability block"),
        ("variable a {type discrete [1] {x};}\nprobability a {\n}", 2, r"expected \( CHILD \| PARENTS \)"),
        (parents(body="table .5 .5;").replace("( c )", "( d )"), 3, "no variable 'd' is declared"),
        (parents("p", body="").replace("( c | p )", "( c | p, p )"), 5, "variable 'p' occurs twice"),
        (
            parents(body="table .5 .5;") + "probability ( c ) {table .5 .5;}",
            6,
            "'c' has two probability blocks",
        ),
        (parents("p", body="(u) .5 .5;"), 5, "the probabilities of 'c' given p=v are missing"),
        (parents("p", body="(u) .5 .5;\n(u) .5 .5;"), 7, "a column of the table of 'c' is given twice"),
        (parents("p", body="(u) .5 .5;\ntable .5 .5 .5 .5;"), 7, "a column of the table of 'c' is given twice"),
        (parents("p", body="(u) .5 .5;\n(w) .5 .5;"), 7, r"expected a state of parent 'p' \(u, v\), found 'w'"),
        (parents("p", body="(u, v) .5 .5;"), 6, r"expected the table of 'c' .* found ','"),
        (parents("p", body="(u) .5\n;"), 7, r"expected the table of 'c' .* found ';'"),
        (parents("p", body="(u) .5 .5\n.5;"), 7, r"expected the table of 'c' .* found '.5'"),
        (parents("p", body="(u) .5 .5"), 7, r"expected the table of 'c' .* found '}'"),
        (parents("p", body="(u) .5 .5;\nwhat 1 2;"), 7, "expected the table of 'c' .* found 'what'"),
        (
            parents("p", body="(u) .5 .5;\n(v) .5\nx;"),
            8,
            "expected a finite, .* probability of 'c', found 'x'",
        ),
        (
            parents("p", body="(u) .5 .5;\n(v) 1.5 -.5;"),
            7,
            "expected a finite, non-negative .* found '-.5'",
        ),
        (parents("p", body="(u) .5 .5;\n(v) 1 nan;"), 7, "expected a finite, non-negative .* found 'nan'"),
        (parents("p", body="(u) .5 .5;\n(v) 1 inf;"), 7, "expected a finite, non-negative .* found 'inf'"),
        (parents("p", body="(u) .5 .5;\n(v) .5 .4;"), 7, "the probabilities of 'c' given p=v must sum to 1, found 0.9"),
        (parents(body="\ntable .5 .4;"), 5, "the probabilities of 'c' must sum to 1, found 0.9"),
    ],
)
def test_malformed(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        bif.loads(text)
    assert caught.value.line == line


def test_text_that_is_not_utf8() -> None:
    with pytest.raises(FormatError, match=r"^line 2: the text is not UTF-8 \(byte 0xe4\)"):
        bif.loads("network n {}\nvariable ä {}".encode("latin-1"))


def test_a_cycle_is_named() -> None:
    text = "variable a {type discrete [2] {s t};} variable b {type discrete [2] {s t};}"
    text += "probability (a | b) {default .5 .5;} probability (b | a) {default .5 .5;}"
    with pytest.raises(FormatError, match="the arcs form a cycle: "):
        bif.loads(text)


def test_a_table_that_cannot_be_filled_is_refused() -> None:
    names = [f"p{i}" for i in range(60)]
    with pytest.raises(FormatError, match=rf"line 123: the table of 'c' has {2**61} cells, too many to fill"):
        bif.loads(parents(*names, body="default .5 .5;"))

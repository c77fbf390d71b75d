"""XMLBIF: the order of a table, safe XML, and every way to be wrong with its line."""

from __future__ import annotations

import pytest

from beliefs.errors import FormatError
from beliefs.io import bif, xmlbif
from beliefs.model import BayesianNetwork, Variable

DOG = """<?xml version="1.0" encoding="US-ASCII"?>
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
]>
<BIF VERSION="0.3">
<NETWORK>
<NAME>Dog-Problem</NAME>
<PROPERTY>author = nobody</PROPERTY>
<!-- Variables -->
<VARIABLE TYPE="nature"> <NAME>bowel</NAME> <OUTCOME>true</OUTCOME> <OUTCOME>false</OUTCOME>
  <PROPERTY>position = (335.99, 99.28)</PROPERTY> </VARIABLE>
<VARIABLE TYPE="nature"> <NAME>family</NAME> <VALUE>&lt;5</VALUE> <VALUE>5 &amp; up</VALUE> </VARIABLE>
<VARIABLE TYPE="nature"> <NAME>dog</NAME> <OUTCOME>true</OUTCOME> <OUTCOME>false</OUTCOME> </VARIABLE>
<DEFINITION> <FOR>bowel</FOR> <TABLE>0.01 0.99</TABLE> </DEFINITION>
<DEFINITION> <FOR>family</FOR> <TABLE>0.15 0.85 <!-- given family --> </TABLE> </DEFINITION>
<DEFINITION> <FOR>dog</FOR> <GIVEN>bowel</GIVEN> <GIVEN>family</GIVEN>
  <TABLE>0.99 0.01 0.97 0.03
         0.9 0.1 0.3 0.7</TABLE> </DEFINITION>
</NETWORK>
</BIF>
"""


def test_the_grammar() -> None:
    network = xmlbif.loads(DOG)
    assert network.variables[1].states == ("<5", "5 & up")
    assert network.cpt("dog").tolist() == [[[0.99, 0.01], [0.97, 0.03]], [[0.9, 0.1], [0.3, 0.7]]]
    assert network.properties == {
        "name": "Dog-Problem",
        "author": "nobody",
        "bowel.position": "(335.99, 99.28)",
    }


def test_round_trip_and_agreement_with_bif() -> None:
    network = xmlbif.loads(DOG)
    again = xmlbif.loads(xmlbif.dumps(network))
    assert list(again.variables) == list(network.variables)
    assert again.probabilities.tolist() == network.probabilities.tolist()
    assert again.properties == network.properties
    assert bif.loads(bif.dumps(network)).probabilities.tolist() == network.probabilities.tolist()


def test_bytes_in_the_declared_encoding() -> None:
    text = DOG.replace("US-ASCII", "ISO-8859-1").replace("bowel", "bär")
    assert xmlbif.loads(text.encode("latin-1")).variables[0].name == "bär"
    assert xmlbif.loads(text).variables[0].name == "bär"


def test_text_that_xml_would_change_is_not_written() -> None:
    network = BayesianNetwork.from_cpts([Variable("a", [" x", "y"])], {"a": ([], [0.5, 0.5])})
    with pytest.raises(FormatError, match="XMLBIF cannot hold the text ' x'"):
        xmlbif.dumps(network)


def without(*parts: str) -> str:
    text = DOG
    for part in parts:
        assert part in text
        text = text.replace(part, "")
    return text


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the XML is broken: no element found"),
        ("\x00\x01", 1, "the XML is broken: "),
        (DOG[:900], 19, "the XML is broken: "),
        (DOG.replace("</NETWORK>", "</NET>"), 20, "the XML is broken: mismatched tag"),
        ("<html>\n</html>", 1, "expected the element BIF, found html"),
        ("<BIF>\n<NETWORK/></BIF>", 1, "expected at least one VARIABLE"),
        ('<!DOCTYPE BIF [\n<!ENTITY x "y">\n]><BIF/>', 2, "entity declarations are not allowed"),
        ('<!DOCTYPE BIF [\n<!ENTITY x SYSTEM "file:///etc/passwd">\n]><BIF>&x;</BIF>', 2, "entity declarations"),
        (DOG.replace("US-ASCII", "EBCDIC-XY").encode(), 1, "the XML is broken: unknown encoding"),
        (without("<NAME>dog</NAME>"), 14, "a VARIABLE needs one NAME, found 0"),
        (DOG.replace("<NAME>dog</NAME>", "<NAME>bowel</NAME>"), 14, "variable 'bowel' is declared twice"),
        (
            without("<VALUE>&lt;5</VALUE> <VALUE>5 &amp; up</VALUE>"),
            13,
            "'family' needs one or more different",
        ),
        (DOG.replace("<FOR>dog</FOR>", "<FOR>dgo</FOR>"), 17, "no variable 'dgo' is declared; did you mean 'dog'?"),
        (DOG.replace("<GIVEN>family</GIVEN>", "<GIVEN>bowel</GIVEN>"), 17, "variable 'bowel' occurs twice"),
        (DOG.replace("<FOR>family</FOR>", "<FOR>bowel</FOR>"), 16, "variable 'bowel' has two definitions"),
        (without("<TABLE>0.01 0.99</TABLE>"), 15, "a DEFINITION needs one TABLE, found 0"),
        (without(" 0.7"), 19, "expected 8 probabilities of 'dog', found the end of the table"),
        (DOG.replace("0.3 0.7", "0.3 0.7 0"), 19, "expected the end of the table, found '0'"),
        (DOG.replace("0.3 0.7", "0.3 x"), 19, "expected 8 probabilities of 'dog', found 'x'"),
        (DOG.replace("0.3 0.7", "1.3 -0.3"), 19, "expected a finite, non-negative probability of 'dog', found '-0.3'"),
        (DOG.replace("0.3 0.7", "0.3 0.6"), 19, "column 3 of 'dog' must sum to 1, found 0.9"),
    ],
)
def test_malformed(text: str | bytes, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        xmlbif.loads(text)
    assert caught.value.line == line


def test_a_variable_without_a_definition() -> None:
    text = without("<DEFINITION> <FOR>bowel</FOR> <TABLE>0.01 0.99</TABLE> </DEFINITION>")
    with pytest.raises(FormatError, match="variable 'bowel' has no definition"):
        xmlbif.loads(text)

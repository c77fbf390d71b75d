"""What objects show of themselves: text on a terminal, HTML in a notebook; bounded and whole."""

from __future__ import annotations

import builtins
import re
from typing import Any
from xml.dom.minidom import Document, Text, parseString

import numpy as np
import pytest

import beliefs as bl
from beliefs.display.description import MOST_ROWS

HOSTILE = "<script>alert('1')</script> & \"x\" ]]> \x00\x1b \ud800"


def parsed(shown: Any) -> Document:
    """The HTML of an object, checked for what no notebook should get."""
    html = shown._repr_html_()
    document = parseString(html.encode())  # escaped and well-formed
    assert not re.search(r"<script|<style|\bid=|\bon\w+=|javascript:", html)
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb\(|background:(?!none|currentColor)", html)
    return document


def words(document: Document) -> str:
    return " ".join(node.data for node in walk(document) if node.nodeType == node.TEXT_NODE)


def walk(node: Any) -> Any:
    yield node
    for child in node.childNodes:
        yield from walk(child)


@pytest.fixture(scope="module")
def asia() -> Any:
    return bl.datasets.load_bn("asia")


def test_print_shows_the_first_marginals_and_what_they_are_worth(asia: Any) -> None:
    result = bl.infer(asia.condition({"xray": "yes"}))
    text = str(result)
    assert text.startswith("InferenceResult\n  method   junction_tree\n")
    assert "\n  marginals: exact\n" in text and "\n    lung    yes 0.4887  no 0.5113\n" in text
    assert "xray" not in text.partition("marginals")[2]  # observed
    assert len(repr(result).splitlines()) == 4 and "lung" not in repr(result)
    bound = str(bl.infer(asia, "trw"))
    assert "an upper bound: the truth is not above it" in bound and "estimates of trw, without a guarantee" in bound


def test_answers_to_many_rows_are_tables_in_notebooks(asia: Any) -> None:
    rows = [{"xray": "yes"}, {"asia": "yes", "either": "no", "lung": "yes"}] + [{}] * 30
    with pytest.warns(bl.DataWarning, match="row 1 has probability zero"):
        marginals = bl.infer_many(asia, rows)
    with pytest.warns(bl.DataWarning, match="row 1 has probability zero"):
        best = bl.maximize_many(asia, rows)
    shown = words(parsed(marginals))
    assert "exact, to rounding; marginals of 5 more variables: to_frame()" in shown and "and 20 more" in shown
    assert "-inf" in shown and "-2.20464" in shown
    assert "31 proved to be best" in words(parsed(best))
    named = bl.infer_many(asia, {"xray": ["yes", None]}, targets=["lung"])
    assert "0.4887 yes" in words(parsed(named)) and "more variables" not in words(parsed(named))


def test_print_is_bounded() -> None:
    n = 500
    tables = [((v, v + 1), np.eye(9) + 1) for v in range(n - 1)]
    chain = bl.FactorGraph.from_tables([9] * n, tables, names=[f"{v:04}" * 200 for v in range(n)])
    for shown in (bl.infer(chain), bl.maximize(chain), bl.sample(chain, 50), bl.marginal_map(chain, [0, 1])):
        assert len(str(shown).splitlines()) < MOST_ROWS + 12 and len(str(shown)) < 20_000
        parsed(shown)
    assert f"and {n - MOST_ROWS} more" in str(bl.maximize(chain))


def test_answers_and_models_are_whole_in_notebooks(asia: Any) -> None:
    graph = asia.condition({"xray": "yes"})
    machine = bl.RBM([[0.5, -1.0], [1.0, 0.0]])
    batch = bl.RBMBatch([[1.0]], [[0.0], [1.0]], [[0.0], [0.0]])
    shown = [asia, graph, machine, batch, bl.CRBM([[1.0]], [[1.0]], [[1.0]]), bl.FractionalRBM([[1.0]], counts=[0.5])]
    shown += [bl.infer(graph), bl.maximize(graph), bl.marginal_map(graph, ["lung"]), bl.sample(graph, 2)]
    shown += [bl.infer(machine), bl.infer(batch), bl.maximize(batch), bl.infer(shown[5], "enumeration")]
    shown += [bl.log_likelihood(machine, [[0, 1]]), bl.methods()]
    for one in shown:
        assert type(one).__name__ in words(parsed(one)) or one is shown[-1]
    assert "0.4887" in words(parsed(shown[6])) and "exact, to rounding" in words(parsed(shown[6]))
    assert "upper bound" in words(parsed(bl.methods()))


def test_estimators_show_their_options_and_fit() -> None:
    x, y = bl.ChainCRF.tiny_data()
    crf = bl.ChainCRF(l2=0.125)
    assert "l2=0.125" in words(parsed(crf)) and "not yet" in words(parsed(crf))
    crf.fit(x, y)
    assert "CONVERGED" in words(parsed(crf)) and "l1=" not in words(parsed(crf))
    assert crf._repr_mimebundle_()["text/html"] == crf._repr_html_()
    learner = bl.BNLearner(structure="chow_liu").fit({"a": [0, 1, 1], "b": [0, 1, 0]})
    assert "log-likelihood" in words(parsed(learner))
    parsed(crf.result_), parsed(learner.result_)


def test_a_network_is_drawn_and_a_large_one_listed(asia: Any) -> None:
    drawing = parsed(asia)
    assert len(drawing.getElementsByTagName("rect")) == 8 and len(drawing.getElementsByTagName("polygon")) == 8
    words_of = [node.firstChild for node in drawing.getElementsByTagName("text")]
    assert {word.data for word in words_of if isinstance(word, Text)} == {v.name for v in asia.variables}
    munin = bl.datasets.load_bn("munin")
    for shown in (munin, munin.graph, bl.infer(munin)):
        assert len(parsed(shown).toxml()) < 50_000


def test_hostile_names_are_only_names() -> None:
    one, two = bl.Variable(HOSTILE, [HOSTILE, "<b>"]), bl.Variable("'\"><img src=x>", ["\n\n", "\t"])
    network = bl.BayesianNetwork.from_cpts([one, two], {one.name: ([], [0.5, 0.5]), two.name: ([one.name], np.eye(2))})
    for shown in (network, network.graph, bl.infer(network), bl.maximize(network), bl.sample(network, 2)):
        document = parsed(shown)
        assert not document.getElementsByTagName("img") and not document.getElementsByTagName("b")
        assert len(str(shown).splitlines()) < 20
    assert "<script>alert" in words(parsed(bl.infer(network)))


def test_frames_hold_the_answers(asia: Any) -> None:
    graph = asia.condition({"xray": "yes"})
    result = bl.infer(graph)
    frame = result.to_frame()
    assert list(frame.columns) == ["variable", "state", "probability"] and len(frame) == 16
    row = frame[(frame.variable == "lung") & (frame.state == "yes")]
    assert row.probability.item() == result.marginal("lung")[0] == result.marginals()["lung"][0]
    assert list(result.marginals()) == [v.name for v in asia.variables]
    few = bl.infer(asia, targets=["lung"])
    assert set(few.to_frame().variable) == set(few.marginals()) < set(result.marginals())
    best = bl.maximize(graph)
    assert dict(best.to_frame().values) == best.states()
    assert bl.marginal_map(graph, ["lung"]).to_frame().values.tolist() == [["lung", "no"]]
    drawn = bl.sample(graph, 5)
    assert drawn.to_frame().astype(str).to_dict("records") == drawn.states()
    assert len(result.trace.to_frame()) == len(result.trace)
    batch = bl.infer(bl.RBMBatch([[1.0]], [[0.0], [1.0]], [[0.0], [0.0]]))
    assert batch.to_frame()["v0"].tolist() == batch.visible[:, 0].tolist()
    assert bl.log_likelihood(asia, drawn.samples).to_frame().shape == (5, 1)
    crf = bl.ChainCRF().fit(*bl.ChainCRF.tiny_data())
    assert crf.result_.to_frame().loss.iloc[-1] == crf.result_.trace.loss[-1]


def test_without_pandas_there_is_one_line(asia: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    for answer in (bl.infer(asia), bl.sample(asia, 2)):
        with pytest.raises(bl.UnsupportedError, match="^to_frame needs pandas, which is not installed: pip install"):
            answer.to_frame()

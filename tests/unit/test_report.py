"""The demonstration: whole, well-formed, self-contained, and its numbers are those of the library."""

from __future__ import annotations

import base64
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import beliefs as bl
from beliefs.plot import plot_marginals
from beliefs.report import SECTIONS, Section, build_report, write_report
from beliefs.report.__main__ import main
from beliefs.report.alarm import DIAGNOSES, EVIDENCE, alarm_section
from beliefs.report.bounds import BOUNDED, WIDE_SIDE, bounds_section
from beliefs.report.bounds import METHODS as BOUNDED_BY
from beliefs.report.cost import measure
from beliefs.report.digits import LEARNERS
from beliefs.report.grid import COUPLINGS, SIDE, compare, grid_section
from beliefs.report.learning import EXPONENT, MODELS
from beliefs.report.page import Markup, drawing_style, number, picture, seconds, significant, table

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on the bundled networks, which are there on every machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BELIEFS_DATA", raising=False)
        path = write_report(tmp_path_factory.mktemp("report") / "new" / "index.html")
    return path.read_text()


@pytest.fixture(scope="module")
def tree(html: str) -> ET.Element:
    return ET.fromstring(html.removeprefix("<!DOCTYPE html>"))


def text_of(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def rows_of(tree: ET.Element, section: str) -> list[list[str]]:
    """All table rows of a section, cell by cell."""
    (found,) = [s for s in tree.iter("section") if s.get("id") == section]
    return [[text_of(cell) for cell in row] for row in found.iter("tr")]


def numbers(text: str) -> list[float]:
    return [float(word.replace("\u2212", "-")) for word in re.findall(r"[\u2212-]?\d+\.\d+", text)]


# -- the page -----------------------------------------------------------------------------------------------------
def test_every_section_has_a_title_and_a_finding(tree: ET.Element) -> None:
    sections = list(tree.iter("section"))
    assert len(sections) == len(SECTIONS) + 1
    links = [a.get("href") for a in tree.iter("a")]
    assert links == [f"#{s.get('id')}" for s in sections]
    for s in sections:
        heading, finding = s[0], s[1]
        assert (heading.tag, finding.get("class")) == ("h2", "finding")
        assert text_of(finding).endswith(".")


def test_page_needs_nothing_from_outside(html: str, tree: ET.Element) -> None:
    assert not list(tree.iter("script")) + list(tree.iter("link"))
    assert "url(" not in html
    assert "@import" not in html
    for image in tree.iter("img"):
        assert (image.get("src") or "").startswith("data:image/svg+xml;base64,")
    assert re.findall(r"https?://", html) == []


def test_pictures_are_whole_and_described(tree: ET.Element) -> None:
    images = list(tree.iter("img"))
    assert len(images) == 10
    for image in images:
        assert image.get("alt")
        data = base64.b64decode((image.get("src") or "").split(",", 1)[1])
        drawing = ET.fromstring(data)
        assert drawing.tag == f"{SVG}svg"
        drawn = len(list(drawing.iter(f"{SVG}path"))) + 10 * len(list(drawing.iter(f"{SVG}image")))
        assert drawn > 10


def test_no_number_is_missing(html: str) -> None:
    shown = re.sub(r"base64,[^\"]*", "", html)
    assert not re.search(r"\b(?:nan|None|inf)\b", shown)


def test_observed_variables_are_marked_in_one_picture(tree: ET.Element) -> None:
    marks = []
    for image in tree.iter("img"):
        drawing = base64.b64decode((image.get("src") or "").split(",", 1)[1]).decode()
        marks.append(set(re.findall(r'id="observed:(\w+)"', drawing)))
    assert [m for m in marks if m] == [set(EVIDENCE)]


def test_two_runs_differ_only_in_timings(html: str) -> None:
    def steady(text: str) -> str:
        return re.sub(r'<span class="timing">.*?</span>', "", text)

    with drawing_style():
        again = [alarm_section(), grid_section(), bounds_section()]
    for section in again:
        assert steady(section.body) in steady(html)


# -- its numbers --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def alarm() -> bl.BayesianNetwork:
    return bl.datasets.load_bn("alarm")


def test_probability_of_the_evidence(tree: ET.Element, alarm: bl.BayesianNetwork) -> None:
    truth = bl.infer(alarm.condition(EVIDENCE), "elimination").log_z
    rows = {row[0]: row for row in rows_of(tree, "a-patient-in-trouble")}
    assert numbers(rows["log P(evidence)"][1]) == [round(truth, 6)]
    assert rows["log P(evidence)"][1].startswith("= ")
    assert rows["log P(evidence)"][2] == "EXACT"
    assert numbers(rows["P(evidence)"][1])[0] == pytest.approx(math.exp(truth), rel=1e-3)


def test_probabilities_of_the_faults(tree: ET.Element, alarm: bl.BayesianNetwork) -> None:
    before, after = bl.infer(alarm), bl.infer(alarm.condition(EVIDENCE))
    rows = [row for row in rows_of(tree, "a-patient-in-trouble") if len(row) == 5 and row[0] in DIAGNOSES]
    assert {row[0] for row in rows} == set(DIAGNOSES)
    for name, state, p, q, change in rows:
        x = alarm.state(name, state)
        expected = [before.marginal(name)[x], after.marginal(name)[x]]
        np.testing.assert_allclose(numbers(f"{p} {q}"), expected, atol=5.001e-5)
        assert numbers(change)[0] == pytest.approx(expected[1] - expected[0], abs=5.001e-5)


def test_best_explanations(tree: ET.Element, alarm: bl.BayesianNetwork) -> None:
    seen = alarm.condition(EVIDENCE)
    best, diagnosis = bl.maximize(seen), bl.marginal_map(seen, DIAGNOSES)
    rows = {row[0]: row for row in rows_of(tree, "a-patient-in-trouble") if len(row) == 4}
    for name in DIAGNOSES:
        assert rows[name][2:] == [best.states()[name], diagnosis.states()[name]]
    assert numbers(" ".join(rows["log value"])) == [round(best.log_score, 4), round(diagnosis.log_value, 4)]
    assert best.states()["INTUBATION"] != diagnosis.states()["INTUBATION"]  # what the text says of this evidence


def test_grid_table(tree: ET.Element) -> None:
    rows = [row for row in rows_of(tree, "exact-against-approximate") if row[1] in ("junction_tree", "bp")]
    assert len(rows) == 2 * len(COUPLINGS)
    for (word, coupling), exact_row, bp_row in zip(COUPLINGS.items(), rows[::2], rows[1::2], strict=True):
        grid = bl.datasets.make_ising_grid(SIDE, field=0.3, coupling=coupling, seed=1)
        exact, bp = bl.infer(grid, "elimination"), compare(word, coupling).bp
        assert numbers(exact_row[2])[0] == pytest.approx(exact.log_z, abs=5.001e-4)
        assert (exact_row[2][0], bp_row[2][0]) == ("=", "~")
        error = np.abs(bp.mu_var - exact.mu_var)
        assert numbers(bp_row[4])[0] == pytest.approx(error.max(), abs=5.001e-5)
        assert numbers(bp_row[5])[0] == pytest.approx(error.mean(), abs=5.001e-5)
        assert bp_row[6:8] == [bp.status.name, str(bp.n_iters)]


def test_bounds_table(tree: ET.Element) -> None:
    grid = bl.datasets.make_ising_grid(WIDE_SIDE, **BOUNDED)  # type: ignore[arg-type]
    rows = {row[0]: row for row in rows_of(tree, "bounds-where-exact-is-out-of-reach")}
    for method in BOUNDED_BY:
        result = bl.infer(grid, method)
        assert rows[method][1][: len(result.bound.sign)] == result.bound.sign
        assert numbers(rows[method][1]) == [pytest.approx(result.log_z, abs=5.001e-3)]
        assert rows[method][2:6:3] == [result.bound.name, str(result.n_iters)]
    values = [numbers(rows[method][1])[0] for method in BOUNDED_BY]
    assert sorted(values, reverse=True) == values
    assert [rows[method][2] for method in BOUNDED_BY] == ["UPPER"] * 3 + ["ESTIMATE"] + ["LOWER"] * 3


def test_cost_table(tree: ET.Element) -> None:
    rows = {row[0]: row for row in rows_of(tree, "the-cost--before-it-is-paid")}
    assert {"andes", "pigs", "water"} <= set(rows)
    pigs = measure("pigs")
    assert rows["pigs"][1:3] == ["441", str(pigs.cost.plan.width)]
    assert float(rows["pigs"][3].replace(",", "")) == pytest.approx(pigs.cost.plan.total_cells, rel=5e-3)
    assert pigs.first is not None
    assert pigs.again is not None


def test_every_method_is_listed(tree: ET.Element) -> None:
    rows = {row[0]: row for row in rows_of(tree, "methods-and-what-they-promise")}
    for method in bl.METHODS:
        assert rows[method.name][2] == method.guarantee
    for status in bl.Status:
        assert rows[status.name] == [status.name, status.advice]


# -- pieces -------------------------------------------------------------------------------------------------------
def test_text_is_escaped_and_markup_is_not() -> None:
    made = table(("a < b",), [("x & y",), (Markup("<i>z</i>"),)], numeric=(0,), marked=(1,))
    parsed = ET.fromstring(made)
    assert [text_of(row) for row in parsed.iter("tr")] == ["a < b", "x & y", "z"]
    assert [row.get("class") for row in parsed.iter("tr")] == [None, None, "marked"]
    assert {cell.get("class") for cell in parsed.iter("td")} == {"number"}


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0.0, 2, "0"),
        (1234567.0, 3, "1,230,000"),
        (0.00123, 2, "0.0012"),
        (9.96, 2, "10"),
        (0.999, 2, "1.0"),
        (-3.14159, 3, "\u22123.14"),
        (2.5e-15, 2, "2.5e\u221215"),
        (math.inf, 2, "inf"),
    ],
)
def test_significant_digits(value: float, digits: int, shown: str) -> None:
    assert significant(value, digits) == shown


def test_decimals() -> None:
    assert [number(-1.25, 1), number(-1e-9, 4), number(2, 0)] == ["\u22121.2", "0.0000", "2"]
    assert seconds(0.0123) == '<span class="timing">12\u00a0ms</span>'
    assert seconds(12.3) == '<span class="timing">12\u00a0s</span>'


def test_picture_is_of_the_figure_that_was_drawn(alarm: bl.BayesianNetwork) -> None:
    with drawing_style():
        ax = plot_marginals(bl.infer(alarm), ["HR"])
        made = picture(ax, "bars & states", "A caption", pixels=400)
        assert made == picture(ax.figure, "bars & states", "A caption", pixels=400)  # type: ignore[arg-type]
    image = next(ET.fromstring(made).iter("img"))
    assert (image.get("alt"), image.get("width")) == ("bars & states", "400")


# -- writing ------------------------------------------------------------------------------------------------------
def test_a_failing_section_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index.html"
    path.write_text("old")

    def broken(**_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("beliefs.report.build_report", broken)
    with pytest.raises(KeyboardInterrupt):
        write_report(path)
    assert [p.name for p in tmp_path.iterdir()] == ["index.html"]
    assert path.read_text() == "old"


def test_command_prints_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefs.report.SECTIONS", ())
    monkeypatch.setattr("beliefs.report.build_report", lambda **_: "<html></html>")
    done = CliRunner().invoke(main, ["--output", str(tmp_path / "a" / "b.html")])
    assert (done.exit_code, done.stdout.strip()) == (0, str(tmp_path / "a" / "b.html"))
    assert (tmp_path / "a" / "b.html").read_text() == "<html></html>"


def test_command_tells_of_a_path_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefs.report.build_report", lambda **_: "<html></html>")
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(main, ["--output", str(tmp_path / "file" / "index.html")])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1


def test_own_sections_can_be_added() -> None:
    def mine() -> Section:
        return Section("Mine & yours", "Found: 1 < 2.", Markup("<p>body</p>"))

    told: list[str] = []
    parsed = ET.fromstring(build_report([mine], told.append).removeprefix("<!DOCTYPE html>"))
    assert told == ["loading or compiling the kernels", "mine"]
    assert [text_of(s[0]) for s in parsed.iter("section")] == ["What was run", "Mine & yours"]


# -- learning ---------------------------------------------------------------------------------------------------------
def test_the_learned_model_cleans_up_the_picture(tree: ET.Element) -> None:
    rows = {row[0]: row for row in rows_of(tree, "a-model-of-images--learned")}
    errors = {name: float(rows[name][2]) for name in MODELS}
    assert abs(errors["independent"] - (1 - 2 ** (-1 / EXPONENT))) < 0.01
    assert errors["clique logistic"] < 0.08
    assert errors["clique logistic"] < errors["surrogate likelihood"] + 0.01 < errors["pseudo-likelihood"]
    section = next(s for s in tree.iter("section") if s.get("id") == "a-model-of-images--learned")
    assert "".join(section.itertext()).count("Learning curves") == 1


# -- digits -------------------------------------------------------------------------------------------------------
def test_covered_digits_are_completed_through_the_hidden_layer(tree: ET.Element) -> None:
    rows = rows_of(tree, "pictures-completed-through-a-hidden-layer")[1:]
    assert [row[0] for row in rows] == list(LEARNERS)
    wrong = {row[0]: (float(row[1]), float(row[2])) for row in rows}
    assert wrong["belief propagation"][0] < wrong["logistic regression"][0]
    assert wrong["belief propagation"][1] < wrong["logistic regression"][1] - 0.05


def test_learned_tables_stand_beside_the_truth(tree: ET.Element) -> None:
    rows = rows_of(tree, "a-network-learned-back-from-rows-with-holes")
    truth = bl.datasets.load_bn("alarm")
    held_out = truth.sample(5000, 1)
    scores = {row[0]: numbers(row[2])[0] for row in rows[1:5]}
    assert scores["the truth"] == pytest.approx(bl.log_likelihood(truth, held_out).mean, abs=1e-3)
    assert scores["the truth"] > scores["all cells"] > scores["nine cells in ten"] > scores["only rows without a hole"]
    cells = [row for row in rows if row[0].startswith("LVEDVOLUME=")]
    assert [numbers(row[2])[0] for row in cells] == pytest.approx(truth.cpt("CVP").ravel(), abs=1e-3)
    assert all(low <= mine <= high for row in cells for mine, low, high in [numbers(" ".join(row[3:]))])

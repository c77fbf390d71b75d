"""Sphinx configuration; `make docs` builds with warnings as errors."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

project = "beliefs"
author = "The beliefs developers"
copyright = "2026, The beliefs developers"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"][
    "version"
]

sys.path.insert(0, str(HERE / "_extensions"))
extensions = [
    "code_in_tables",
    "mathml",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_tables"]
html_theme = "furo"
html_title = "beliefs"
html_static_path = ["_static"]
html_css_files = ["beliefs.css"]
html_math_renderer = "mathml"  # written at build time: no script, no network
pygments_style = "friendly"
pygments_dark_style = "github-dark"
myst_enable_extensions = ["attrs_inline", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are stored with their outputs: `make notebooks`
nb_mime_priority_overrides = [("html", "image/png", 5), ("html", "text/html", 7)]
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
autosummary_generate = (
    False  # the tables only: their names are described on the same page
)
autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# a reader wants the name, not what NumPy makes of it
SHORT = ("ArrayLike", "Arrays", "Floats", "Ints", "Bools")
autodoc_type_aliases = {name: name for name in SHORT}
autodoc_mock_imports = ["torch"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
suppress_warnings = [
    "ref.python"
]  # shapes such as (n_vars,) name attributes of several classes

KEY = r"[a-z]+[0-9]{4}[a-z]?"
CITATION = re.compile(rf"\[({KEY}(?:[,;] ?{KEY})*)\]")


def _role(match: re.Match[str]) -> str:
    return f":cite:p:`{re.sub('[;,] ?', ',', match.group(1))}`"


def cite_in_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = [CITATION.sub(_role, line) for line in lines]


def cite_in_page(app: Any, docname: str, source: list[str]) -> None:
    source[0] = CITATION.sub(
        lambda match: "{cite:p}" + _role(match).removeprefix(":cite:p:"), source[0]
    )


def findings_in_page(app: Any, docname: str, source: list[str]) -> None:
    """Put what the experiments found, from their own README, at the end of the page of reproductions."""
    if docname != "reproductions":
        return
    path = HERE.parent / "experiments" / "README.md"
    app.env.note_dependency(str(path))
    findings = path.read_text().partition("## ")
    text = re.sub(rf"^\[{KEY}\]: .*$", "", findings[2], flags=re.MULTILINE)
    source[0] += "\n## " + text.replace("](figures/", "](../experiments/figures/")


def skip_borrowed(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what estimators have from scikit-learn (its pages refer to its own), and what only tools ask for."""
    if name in ("data_form", "tiny_data"):
        return True
    borrowed = re.fullmatch(r"set_\w+_request", name) or str(
        getattr(obj, "__module__", "")
    ).startswith("sklearn.")
    return True if borrowed else None


def short_types(
    app: Any,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Write the aliases of types as they are called."""
    alias = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
    shown = (text and alias.sub(r"\1", text) for text in (signature, returns))
    return next(shown), next(shown)


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", short_types)
    app.connect("autodoc-skip-member", skip_borrowed)
    app.connect("autodoc-process-docstring", cite_in_docstring)
    app.connect("source-read", findings_in_page)
    app.connect("source-read", cite_in_page)

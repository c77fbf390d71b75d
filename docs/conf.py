"""Sphinx configuration; `make docs` builds with warnings as errors."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

project = "beliefs"
author = "The beliefs developers"
copyright = "2026, The beliefs developers"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.apidoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinxcontrib.bibtex",
]
html_theme = "furo"
# A package's page says what the package itself defines; what it passes on is on the page of its module. Some releases
# of Sphinx (9.0, the last for Python 3.11) forget the options below on packages' pages, and look here.
DESCRIBED = ("ignore-module-all", "members", "show-inheritance")
os.environ["SPHINX_APIDOC_OPTIONS"] = ",".join(DESCRIBED)
apidoc_modules = [
    {
        "path": "../src/beliefs",
        "destination": "generated",
        "separate_modules": True,
        "module_first": True,
        "exclude_patterns": ["../src/beliefs/__main__.py"],
        "automodule_options": set(DESCRIBED),
    }
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
suppress_warnings = ["ref.python"]  # shapes such as (n_vars,) name attributes of several classes

KEY = r"[a-z]+[0-9]{4}[a-z]?"
CITATION = re.compile(rf"\[({KEY}(?:[,;] ?{KEY})*)\]")


def _role(match: re.Match[str]) -> str:
    return f":cite:p:`{re.sub('[;,] ?', ',', match.group(1))}`"


def cite_in_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [CITATION.sub(_role, line) for line in lines]


def cite_in_page(app: Any, docname: str, source: list[str]) -> None:
    source[0] = CITATION.sub(lambda match: "{cite:p}" + _role(match).removeprefix(":cite:p:"), source[0])


def skip_borrowed(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn writes into estimators (`set_fit_request`, ...): its pages refer to its own.

    And functions that a package has from a module of the same name (`learning.fit`): they are on the module's page.
    """
    page = app.env.docname.removeprefix("generated/")
    borrowed = re.fullmatch(r"set_\w+_request", name) or f"{page}.{name}" in sys.modules
    return True if borrowed else None


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", skip_borrowed)
    app.connect("autodoc-process-docstring", cite_in_docstring)
    app.connect("source-read", cite_in_page)

"""Formulas as MathML, written at build time: pages need neither a script nor a network to show them."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

LOG = logging.getLogger(__name__)
SAME = {
    r"\dots": r"\ldots",
    r"\Bigl(": r"\left(",
    r"\Bigr)": r"\right)",
    r"\Big(": r"\left(",
    r"\Big)": r"\right)",
}
ARGUMENT = r"\s*(\{[^{}]*\}|\\[a-zA-Z]+|[^\s{}\\])"
ACCENT = re.compile(rf"(\\(?:hat|bar|tilde|vec|dot)){ARGUMENT}(?=\s*[_^])")
FRACTION = re.compile(rf"(\\[td]?frac){ARGUMENT}{ARGUMENT}")


def braced(formula: str) -> str:
    r"""Return the formula with braces that the reader needs: it takes ``\tfrac12`` for a fraction of 12, and the
    index of ``\hat y_i`` for what stands under the letter.

    Examples
    --------
    >>> print(braced(r"\tfrac12 x + \tfrac\lambda2 y + \tfrac1{4n} z"))
    \tfrac{1}{2} x + \tfrac{\lambda}{2} y + \tfrac{1}{4n} z
    >>> print(braced(r"\mu_i(\hat y_i) + \bar{u}^2 + \hat y"))
    \mu_i(\hat{y}{}_i) + \bar{u}{}^2 + \hat y
    """
    formula = ACCENT.sub(lambda m: f"{m[1]}{{{m[2].strip('{}')}}}{{}}", formula)
    return FRACTION.sub(
        lambda m: m[1] + "".join(f"{{{part.strip('{}')}}}" for part in m.groups()[1:]),
        formula,
    )


def mathml(node: nodes.Element, block: bool) -> str:
    """Return the element for one formula; what cannot be read is shown as it was written, with a warning."""
    text = braced(node.astext().strip())
    for command, known in SAME.items():
        text = text.replace(command, known)
    if block and (r"\\" in text or "&" in text):
        text = rf"\begin{{align}}{text}\end{{align}}"
    try:
        return str(tex2mathml(text, as_block=block))
    except MathError as error:
        LOG.warning(
            "this formula is not understood: %s (%s)", text, error, location=node
        )
        return f"<code>{text}</code>"


def visit_math(self: Any, node: nodes.math) -> None:
    self.body.append(mathml(node, block=False))
    raise nodes.SkipNode


def visit_math_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{mathml(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

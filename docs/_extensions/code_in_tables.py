"""Code in cells of tables: lines end after brackets, commas, dots, equals signs or parts of a name first.

The places are marked by ``<wbr>``, which is not copied with the code.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_LONG = 12  # letters of a name that may be broken
_WORD = re.compile(r"(?<=[a-z]_)(?=[a-z])|(?<=[a-z])(?=[A-Z])")
_BREAK = re.compile(r"(?<=[(\[,=])(?=[^\s\])=])|(?<=\w\.)(?=[A-Za-z])")


class _Breaks(SphinxPostTransform):
    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for table in self.document.findall(nodes.table):
            if "autosummary" in table["classes"]:  # names alone
                continue
            for code in table.findall(nodes.literal):
                for text in list(code.findall(nodes.Text)):
                    parts: list[nodes.Node] = []
                    for word in _places(text.astext()):
                        parts += [
                            nodes.Text(word),
                            nodes.raw("", "<wbr>", format="html"),
                        ]
                    text.parent.replace(text, parts[:-1])


def _places(text: str) -> list[str]:
    """Return code in the parts between which a line may end."""
    parts = _BREAK.split(text)
    return [
        p
        for part in parts
        for p in (_WORD.split(part) if len(part) > _LONG else [part])
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(_Breaks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

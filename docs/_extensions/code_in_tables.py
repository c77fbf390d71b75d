"""Code in cells of tables: lines end after brackets, commas, dots or equals signs first.

The places are marked by ``<wbr>``, which is not copied with the code.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_BREAK = re.compile(r"(?<=[(\[,.=])(?=[^\s\])])")


class _Breaks(SphinxPostTransform):
    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for table in self.document.findall(nodes.table):
            for code in table.findall(nodes.literal):
                for text in list(code.findall(nodes.Text)):
                    parts: list[nodes.Node] = []
                    for word in _BREAK.split(text.astext()):
                        parts += [
                            nodes.Text(word),
                            nodes.raw("", "<wbr>", format="html"),
                        ]
                    text.parent.replace(text, parts[:-1])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(_Breaks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

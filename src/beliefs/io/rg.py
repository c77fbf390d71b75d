"""Files of outer regions (``.rg``): which sets of variables shall have a table together.

::

    n
    k_1  v_1 .. v_k     one line a region: its size, then its variables by index
    ...

Lines are not told apart: what counts are white space and order. ``/* ... */`` is a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from beliefs.io.files import StrPath, named_errors, read_bytes, write_bytes
from beliefs.io.scanner import Scanner, without_comments
from beliefs.model.graph import Model, as_factor_graph

__all__ = ["dumps", "loads", "read_regions", "write_regions"]


def loads(data: str | bytes, model: Model | None = None) -> list[tuple[int, ...]]:
    """Return the regions of a text, as indices; with a model, they are checked against it.

    Examples
    --------
    >>> loads("2  3 0 1 2  2 2 3")
    [(0, 1, 2), (2, 3)]
    """
    scan = Scanner(without_comments(data))
    count = scan.count("the number of regions", "regions")
    ptr, flat = scan.scopes(count, None if model is None else as_factor_graph(model).n_vars)
    scan.end()
    regions = [tuple(flat[a:b].tolist()) for a, b in zip(ptr[:-1], ptr[1:], strict=True)]
    for k, region in enumerate(regions):
        if not region or len(set(region)) < len(region):
            what = "names a variable twice" if region else "has no variables"
            raise scan.error(f"region {k} {what}")
    return regions


def dumps(regions: Iterable[Sequence[int]]) -> str:
    """Return regions, given as indices, as text; ``RegionGraph.scopes[:n_outer]`` are such."""
    rows = [" ".join(map(str, (len(region), *region))) for region in regions]
    return "\n".join([str(len(rows)), *rows]) + "\n"


def read_regions(path: StrPath, model: Model | None = None) -> list[tuple[int, ...]]:
    """Read a file of outer regions, for :meth:`beliefs.RegionGraph.cvm`."""
    with named_errors(path):
        return loads(read_bytes(path), model)


def write_regions(path: StrPath, regions: Iterable[Sequence[int]]) -> None:
    """Write outer regions; the file appears whole or not at all."""
    with named_errors(path):
        write_bytes(path, dumps(regions).encode())

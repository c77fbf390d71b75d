"""Tree-robust sets of cycles: bounded faces of plane graphs, and triangles around one vertex.

Both are tree-robust [gelfand2014]: of every set of faces, or of triangles through one vertex, the edges that lie in one
of them only contain a cycle. In a plane graph that is so because every edge is in at most two bounded faces.

Cost: linear for grids and stars. Other graphs are embedded by networkx, in linear time too, but in Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.cycles.pairs import Cycle, PairGraph, canonical
from beliefs.errors import ModelError, UnsupportedError
from beliefs.model.graph import Model, as_factor_graph
from beliefs.typing import Ints, VariableRef

__all__ = ["faces", "grid_inside", "planar_faces", "star", "star_at"]


def faces(model: Model) -> list[Cycle]:
    """Return the bounded faces of a planar graph; in each of its blocks the longest face is the outer one.

    Grids in row order, and what evidence leaves of them, are known without networkx and keep their own faces.

    Raises
    ------
    ModelError
        For a graph that is not planar.
    UnsupportedError
        For a graph that is no grid, without networkx.
    """
    pairs = PairGraph.of(model)
    found = planar_faces(pairs)
    if found is None:
        raise ModelError("the graph is not planar, so it has no faces; use star or partially_tree_robust")
    return found


def star(model: Model, root: VariableRef | None = None) -> list[Cycle]:
    """Return the triangles at ``root``, one for each edge between its neighbours.

    Without a root: the variable of largest degree, of these the first.
    """
    graph, pairs = as_factor_graph(model), PairGraph.of(model)
    if root is None:
        if not pairs.n_edges:
            return []
        return star_at(pairs, int(np.argmax(pairs.degree)))
    v = graph.index(root)
    if not pairs.degree[v]:
        raise ModelError(f"no factor joins {graph.naming.name(v)} to another variable, so no cycle passes it")
    return star_at(pairs, v)


def star_at(pairs: PairGraph, root: int) -> list[Cycle]:
    """Return the triangles at a vertex."""
    around = pairs.neighbours(root)
    near = set(around)
    found = [(u, v) for u in around for v in pairs.neighbours(u) if u < v and v in near]
    return [canonical((root, u, v)) for u, v in found]


# -- grids --------------------------------------------------------------------------------------------------------
def grid_inside(pairs: PairGraph) -> tuple[int, int] | None:
    """Return the shape of a grid in row order all of whose edges are there, that of most faces; None if there is none.

    The last row may not be cut: rows times columns are all variables.
    """
    n, held = pairs.n_vars, pairs.number
    best = None
    for cols in range(2, n // 2 + 1):
        if n % cols or (0, cols) not in held or (0, 1) not in held:
            continue
        shape = (n // cols, cols)
        if best is not None and (shape[0] - 1) * (cols - 1) <= (best[0] - 1) * (best[1] - 1):
            continue
        if all(edge in held for edge in map(tuple, _grid_edges(*shape).tolist())):
            best = shape
    return best


def _grid_edges(rows: int, cols: int) -> Ints:
    at = np.arange(rows * cols).reshape(rows, cols)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    return np.concatenate([across, down])


def grid_faces(rows: int, cols: int) -> list[Cycle]:
    """Return the faces of a grid, row by row."""
    at = np.arange(rows * cols).reshape(rows, cols)
    corners = np.stack([at[:-1, :-1], at[:-1, 1:], at[1:, 1:], at[1:, :-1]], axis=-1).reshape(-1, 4)
    return [tuple(face) for face in corners.tolist()]


def _part_of_grid(pairs: PairGraph) -> list[Cycle] | None:
    """Return the bounded faces of a graph all of whose edges are those of a grid; None if there is no such grid.

    Walks that turn right where they can go around one face each, clockwise around bounded ones. Where such a walk
    passes a vertex twice the face is no cycle, and it is left to an embedding of the blocks.
    """
    apart = np.unique(pairs.edges[:, 1] - pairs.edges[:, 0]).tolist()
    cols = apart[-1] if apart else 0
    if cols < 2 or pairs.n_vars % cols or set(apart) - {1, cols}:
        return None
    if (pairs.edges[pairs.edges[:, 1] - pairs.edges[:, 0] == 1, 1] % cols == 0).any():
        return None
    rows = pairs.n_vars // cols
    if pairs.n_edges == rows * (cols - 1) + (rows - 1) * cols:
        return grid_faces(rows, cols)
    steps = (1, cols, -1, -cols)  # right, down, left, up: each is a turn to the right
    sides = {(u, d) for u, v in pairs.edges.tolist() for d in ([0, 2] if v - u == 1 else [1, 3])}
    ways = {(u, d) if d < 2 else (u + (1 if d == 2 else cols), d) for u, d in sides}
    found, walked = [], set()
    for start in sorted(ways):
        walk, turns, way = [], 0, start
        while way not in walked:
            walked.add(way)
            walk.append(way[0])
            v, d = way[0] + steps[way[1]], way[1]
            turn = next(t for t in (1, 0, -1, 2) if (v, (d + t) % 4) in ways)
            turns += turn if turn < 2 else -2
            way = (v, (d + turn) % 4)
        if turns > 0:
            if len(set(walk)) < len(walk):
                return None
            found.append(canonical(walk))
    return sorted(found)


# -- planar graphs ------------------------------------------------------------------------------------------------
def planar_faces(pairs: PairGraph) -> list[Cycle] | None:
    """Return the faces of every block but its longest, sorted; None where the graph is not planar."""
    if pairs.n_edges > max(3 * pairs.n_vars - 6, 2):
        return None
    of_grid = _part_of_grid(pairs)
    if of_grid is not None:
        return of_grid
    networkx = _networkx()
    graph = networkx.Graph(pairs.edges.tolist())
    found: list[Cycle] = []
    for block in networkx.biconnected_components(graph):
        if len(block) < 3:
            continue
        inside = networkx.Graph()  # in the order of indices, so that the embedding does not depend on sets
        inside.add_nodes_from(sorted(block))
        inside.add_edges_from(sorted((min(e), max(e)) for e in graph.subgraph(block).edges()))
        planar, embedding = networkx.check_planarity(inside)
        if not planar:
            return None
        of_block = _faces_of(embedding)
        outer = max(range(len(of_block)), key=lambda k: (len(of_block[k]), [-v for v in of_block[k]]))
        found += [face for k, face in enumerate(of_block) if k != outer]
    return sorted(found)


def _faces_of(embedding: Any) -> list[Cycle]:
    marked: set[tuple[int, int]] = set()
    walks = [embedding.traverse_face(u, v, marked) for u, v in sorted(embedding.edges()) if (u, v) not in marked]
    return [canonical(walk) for walk in walks]


def _networkx() -> Any:
    try:
        import networkx
    except ImportError:
        raise UnsupportedError("faces of graphs other than grids need networkx; try the extra beliefs[plot]") from None
    return networkx

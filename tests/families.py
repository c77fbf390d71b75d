"""The model zoo: one small model of every kind that a method may meet, and evidence that is possible in each.

Every family has at most a few thousand joint states, so that the oracle in ``reference.py`` can write them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np

import reference
from beliefs.model import RBM, BayesianNetwork, FactorGraph, FractionalRBM, Variable

Tables = list[tuple[Sequence[int], np.ndarray]]


def random_tables(
    card: Sequence[int], scopes: Iterable[Sequence[int]], *, seed: int, scale: float = 1.0, zeros: float = 0.0
) -> Tables:
    """Gaussian log tables; a share ``zeros`` of the entries is ``-inf``, never those that agree with state 0."""
    rng = np.random.default_rng(seed)
    tables: Tables = []
    for scope in scopes:
        table = scale * rng.normal(size=[card[v] for v in scope])
        hard = np.asarray(rng.random(table.shape) < zeros)
        hard.flat[0] = False
        tables.append((tuple(scope), np.where(hard, -np.inf, table)))
    return tables


def random_model(card: Sequence[int], scopes: Iterable[Sequence[int]], **law: float) -> FactorGraph:
    """A factor graph with random tables over the given scopes."""
    return FactorGraph.from_tables(card, random_tables(card, scopes, **law), log=True)  # type: ignore[arg-type]


def random_models(n: int, n_factors: int, arity: int, zeros: float) -> list[FactorGraph]:
    """Models of nine variables of up to three states, with random scopes of at most ``arity`` variables."""
    graphs = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        scopes = [tuple(rng.choice(9, size=rng.integers(1, arity + 1), replace=False)) for _ in range(n_factors)]
        graphs.append(random_model(list(rng.integers(1, 4, size=9)), scopes, seed=seed, zeros=zeros))
    return graphs


def unary(n: int) -> list[tuple[int, ...]]:
    return [(v,) for v in range(n)]


def grid_pairs(rows: int, cols: int) -> list[tuple[int, ...]]:
    across = [(r * cols + c, r * cols + c + 1) for r in range(rows) for c in range(cols - 1)]
    return [*across, *((r * cols + c, (r + 1) * cols + c) for r in range(rows - 1) for c in range(cols))]


TREE_PAIRS: list[tuple[int, ...]] = [(0, 1), (1, 2), (3, 1), (3, 4), (5, 0), (5, 6), (0, 7)]


def single_variable() -> FactorGraph:
    return random_model([4], [(0,)], seed=1)


def chain() -> FactorGraph:
    return random_model([3] * 7, unary(7) + [(v, v + 1) for v in range(6)], seed=2)


def tree() -> FactorGraph:
    return random_model([2] * 8, unary(8) + TREE_PAIRS, seed=3, scale=2.0)


def grid() -> FactorGraph:
    return random_model([2] * 12, unary(12) + grid_pairs(3, 4), seed=4)


def complete() -> FactorGraph:
    return random_model([3] * 5, unary(5) + [(u, v) for u in range(5) for v in range(u)], seed=5, scale=0.7)


def star() -> FactorGraph:
    return random_model([3] + [2] * 8, unary(9) + [(v, 0) for v in range(1, 9)], seed=6)


def higher_order() -> FactorGraph:
    return random_model([2, 3, 2, 2, 3, 2], [(0, 2, 1), (4, 1, 3), (5, 0, 3, 2), (4, 5), (1,)], seed=7)


def higher_order_tree() -> FactorGraph:
    return random_model([2, 3, 2, 2, 3, 2, 2], [(1, 0, 2), (4, 2, 3), (5, 4), (6,), (6, 5)], seed=8)


def hard_zeros() -> FactorGraph:
    return random_model([3] * 6, unary(6) + grid_pairs(2, 3), seed=9, zeros=0.4)


def hard_zeros_tree() -> FactorGraph:
    return random_model([3] * 7, [(0, 1), (1, 2), (1, 3), (3, 4), (5, 4), (5,), (6, 5)], seed=10, zeros=0.45)


def parity() -> FactorGraph:
    """Even-parity constraints: no joint state but a few has weight, and no single zero says so."""
    even = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 0, 0.0, -np.inf)
    checks: Tables = [((0, 1, 2), even), ((2, 3, 4), even), ((4, 5, 0), even)]
    return FactorGraph.from_tables([2] * 6, random_tables([2] * 6, unary(6), seed=11) + checks, log=True)


def disconnected() -> FactorGraph:
    return random_model([2, 3, 2, 2, 2, 3, 2], [(0, 1), (1, 2), (2, 0), (3, 4), (6, 5), (5,)], seed=12)


def mixed_cardinalities() -> FactorGraph:
    return random_model([2, 5, 3, 1, 4, 2], [(1, 0), (2, 1), (2, 4, 3), (5, 4), (0, 5)], seed=13)


def single_states() -> FactorGraph:
    return random_model([1, 2, 1, 1, 3, 1], [(0,), (0, 1), (2, 3), (1, 2, 4), (3,), (5, 4)], seed=14)


def only_single_states() -> FactorGraph:
    return random_model([1, 1, 1], [(0, 1), (1, 2), (2, 0), ()], seed=15)


def constants() -> FactorGraph:
    return random_model([2, 3], [(), (0, 1), (), (1,), ()], seed=16, scale=3.0)


def only_constants() -> FactorGraph:
    return random_model([2, 3], [(), ()], seed=17, scale=3.0)


def repeated_scopes() -> FactorGraph:
    return random_model([2, 3, 2, 3], [(0, 1), (1, 0), (0, 1), (2,), (2,), (2, 3), (1, 2), (3, 2)], seed=18)


def tied_tables() -> FactorGraph:
    rng = np.random.default_rng(19)
    return FactorGraph.pairwise(rng.normal(size=(9, 2)), grid_pairs(3, 3), rng.normal(size=(2, 2)))


def isolated_variables() -> FactorGraph:
    return random_model([3, 2, 4, 2, 2], [(1, 3), (3,)], seed=20)


def no_factors() -> FactorGraph:
    return FactorGraph.from_tables([3, 1, 2], [])


def strong_couplings() -> FactorGraph:
    return random_model([2] * 9, unary(9) + grid_pairs(3, 3), seed=21, scale=40.0)


def huge_range() -> FactorGraph:
    return random_model([2] * 6, unary(6) + grid_pairs(2, 3), seed=22, scale=400.0)


def uniform() -> FactorGraph:
    return FactorGraph.from_tables([2, 3, 2], [((0, 1), np.ones((2, 3))), ((1, 2), np.ones((3, 2)))])


def sprinkler() -> BayesianNetwork:
    """A Bayesian network with names, labels and one deterministic column."""
    cloudy, sprinkler, rain = (Variable(name, ["no", "yes"]) for name in ("Cloudy", "Sprinkler", "Rain"))
    grass, slip = Variable("Grass", ["dry", "damp", "wet"]), Variable("Slip", ["no", "yes"])
    wet = [[[1.0, 0.0, 0.0], [0.1, 0.6, 0.3]], [[0.1, 0.5, 0.4], [0.01, 0.19, 0.8]]]
    return BayesianNetwork.from_cpts(
        [slip, grass, sprinkler, rain, cloudy],
        {
            "Cloudy": ([], [0.5, 0.5]),
            "Sprinkler": (["Cloudy"], [[0.5, 0.5], [0.9, 0.1]]),
            "Rain": (["Cloudy"], [[0.8, 0.2], [0.2, 0.8]]),
            "Grass": (["Sprinkler", "Rain"], wet),
            "Slip": (["Grass"], [[0.99, 0.01], [0.8, 0.2], [0.6, 0.4]]),
        },
    )


def bayesian_network() -> FactorGraph:
    return sprinkler().to_factor_graph()


FAMILIES: dict[str, Callable[[], FactorGraph]] = {
    make.__name__: make
    for make in (
        single_variable, chain, tree, grid, complete, star, higher_order, higher_order_tree, hard_zeros,
        hard_zeros_tree, parity, disconnected, mixed_cardinalities, single_states, only_single_states, constants,
        only_constants, repeated_scopes, tied_tables, isolated_variables, no_factors, strong_couplings, huge_range,
        uniform, bayesian_network,
    )
}  # fmt: skip


def rbm() -> RBM:
    rng = np.random.default_rng(23)
    return RBM(rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=4))


def wide_rbm() -> RBM:
    rng = np.random.default_rng(24)
    return RBM(rng.normal(size=(3, 7)).astype(np.float32), rng.normal(size=3).astype(np.float32))


def strong_rbm() -> RBM:
    rng = np.random.default_rng(25)
    return RBM(300.0 * rng.normal(size=(4, 4)), 100.0 * rng.normal(size=4), 100.0 * rng.normal(size=4))


def no_hidden() -> RBM:
    return RBM(np.zeros((4, 0)), [0.5, -1.0, 0.0, 2.0])


def fractional() -> FractionalRBM:
    rng = np.random.default_rng(26)
    return FractionalRBM(rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=4), [0.3, 1.0, 2.4, 0.0])


MACHINES: dict[str, Callable[[], RBM | FractionalRBM]] = {
    make.__name__: make for make in (rbm, wide_rbm, strong_rbm, no_hidden, fractional)
}
"""Boltzmann machines, for the forms of methods that take them; their factor graphs are pairwise models like others."""

MACHINE_METHODS = (
    "enumeration", "mean_field", "mean_field(restarts=2)", "mean_field(order=2)", "bp", "bp(damping=0.3)",
    "gibbs(chains=3, burn_in=5)",
    "gibbs(chains=3, burn_in=5, temperatures=3)", "ais(chains=3, temperatures=4, reverse=True)",
)  # fmt: skip


@cache
def family(name: str) -> FactorGraph:
    """The model of that name, built once."""
    return FAMILIES[name]()


@cache
def oracle(name: str, observed: int = 0) -> np.ndarray:
    """The joint table of a family with the evidence of :func:`evidence`."""
    table = reference.joint_table(family(name), evidence(name, observed))
    table.setflags(write=False)
    return table


@cache
def evidence(name: str, observed: int) -> dict[int, int]:
    """Possible evidence on the last ``observed`` variables, as far as there are so many: the best joint state's."""
    if not observed:
        return {}
    joint = reference.joint_table(family(name))
    best = np.unravel_index(int(joint.argmax()), joint.shape)
    n = len(best)
    return {v: int(best[v]) for v in range(max(0, n - observed), n)}

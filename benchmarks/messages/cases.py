"""What message passing is measured on: random pairwise grids, the methods, the least traffic, and libDAI's times.

A message's least traffic: its table once for the two messages of an edge (``8 K^2 / 2``; none for one tied table), one
message read and one written (``16 K``), its share of the vertex' potentials and of indices (``8 K / 4 + 8``). Its least
arithmetic is ``2 K^2``. The limit is the larger of the times that these take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import beliefs as bl


@dataclass(frozen=True)
class Grid:
    """A square grid with ``states`` states a vertex and a random table on each edge, or one for all."""

    side: int
    states: int
    tied: bool = False

    @property
    def name(self) -> str:
        """What the tables call it."""
        return f"{self.side}x{self.side}, K={self.states}{', tied' if self.tied else ''}"

    @property
    def n_messages(self) -> int:
        """Directed messages: two an edge."""
        return 4 * self.side * (self.side - 1)

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """Return log potentials of vertices, edges, and log potentials of edges."""
        rng = np.random.default_rng(self.states)
        edges = np.ascontiguousarray(bl.datasets.grid_edges(self.side, self.side), np.int64)
        shape = (self.states, self.states) if self.tied else (len(edges), self.states, self.states)
        return rng.normal(size=(self.side**2, self.states)), edges, rng.normal(size=shape)


GRIDS = (Grid(300, 2), Grid(300, 8), Grid(100, 21), Grid(300, 8, tied=True), Grid(100, 21, tied=True))
QUICK = (Grid(60, 2), Grid(30, 8, tied=True))


@dataclass(frozen=True)
class Rule:
    """A method to measure: its text, its question, its reference loop and what a sweep of it updates."""

    name: str
    text: str
    loop: str
    task: str = "infer"
    two_threads: str = ""
    """The text for two threads, where another schedule is needed for them."""

    aimed: bool = True
    """Whether there is an aim for it: maxima are only to cost no more than sums, and libDAI has one chain."""

    @property
    def per_vertex(self) -> bool:
        """Whether the unit is a vertex rather than a message."""
        return self.loop in ("mean_field", "gibbs")


# Gibbs: as many sweeps in a step as a hundredth of the burn-in.
RULES = (
    Rule("BP, sum", "bp", "bp"),
    Rule("BP, max", "bp", "bp", task="maximize", aimed=False),
    Rule("TRW", "trw(rho=grid)", "trw"),
    Rule("fractional", "fractional_bp(rho=0.7)", "fractional"),
    Rule("mean field", "mean_field", "mean_field", two_threads="mean_field(schedule=color)"),
    Rule("Gibbs, 1 chain", "gibbs(chains=1, burn_in=400)", "gibbs", task="sample"),
    Rule("Gibbs, 8 chains", "gibbs(chains=8, burn_in=400)", "gibbs", task="sample", aimed=False),
)

RHO = {"trw": 0.5, "fractional": 0.7}

# libDAI 0.3 built with -O3 and without debug checks, sequential updates in a fixed order, and the reference loops of
# ``reference_kernel.py`` in their first form, measured beside each other on one quiet machine: milliseconds a sweep,
# the smaller of two figures where runs differed. No reference loop for Gibbs was measured then.
LIBDAI = {
    (300, 2): {"bp": 217.0, "trw": 700.0, "mean_field": 973.0, "gibbs": 248.0},
    (300, 8): {"bp": 527.0, "trw": 1280.0, "mean_field": 1261.0, "gibbs": 542.0},
    (100, 21): {"bp": 170.0, "trw": 219.0, "mean_field": 366.0, "gibbs": 32.0},
}
PLAIN = {
    (300, 2): {"bp": 3.4, "trw": 15.6, "mean_field": 4.0},
    (300, 8): {"bp": 18.7, "trw": 67.0, "mean_field": 33.0},
    (100, 21): {"bp": 11.9, "trw": 38.0, "mean_field": 29.0},
}

# The same library asked for a whole answer, to a tolerance of 1e-9, on grids with fields and couplings 0.3 N(0, 1):
# milliseconds, of about as many sweeps as these figures hold of those above.
LIBDAI_CALLS = {
    (300, 2): {"bp": 2680.0, "trw": 6750.0},
    (300, 8): {"bp": 4500.0},
    (100, 21): {"bp": 1280.0},
}

# What is aimed at, one thread: times faster than libDAI's sweep; for BP alternatively the distance from the limit.
AIMS = {
    ("bp", 2, False): (80.0, 2.5), ("bp", 8, False): (50.0, 2.0), ("bp", 21, False): (25.0, 2.0),
    ("bp", 8, True): (60.0, None), ("bp", 21, True): (100.0, None),
    ("trw", 2, False): (100.0, None), ("trw", 8, False): (50.0, None), ("trw", 21, False): (25.0, None),
    ("mean_field", 2, False): (400.0, None), ("mean_field", 8, False): (80.0, None),
    ("mean_field", 21, False): (40.0, None),
    ("gibbs", 2, False): (20.0, None), ("gibbs", 8, False): (20.0, None), ("gibbs", 21, False): (20.0, None),
}  # fmt: skip


def limit_ns(states: int, tied: bool, per_vertex: bool, gb_per_s: float, gflop_per_s: float) -> float:
    """Return the nanoseconds that the least traffic and the least arithmetic of one message (vertex) take.

    A vertex of mean field reads the tables of its two own edges once a sweep, its potentials, and writes its marginal;
    it multiplies four tables.
    """
    if per_vertex:
        n_bytes, flops = (0 if tied else 16 * states**2) + 24 * states + 16, 8 * states**2
    else:
        n_bytes, flops = (0 if tied else 4 * states**2) + 18 * states + 8, 2 * states**2
    return max(n_bytes / gb_per_s, flops / gflop_per_s)


def page_loop(loop: str) -> str:
    """Return under which name libDAI and the loops of old have a time: fractional is measured as TRW was."""
    return "trw" if loop == "fractional" else loop

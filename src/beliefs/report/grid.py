"""Exact against belief propagation on a grid, as the coupling grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.datasets import make_ising_grid
from beliefs.inference.doors import infer
from beliefs.inference.quiet import quietly
from beliefs.inference.result import InferenceResult
from beliefs.plot import plot_grid, plot_scatter, plot_trace
from beliefs.plot.canvas import difference_colours
from beliefs.report.page import Markup, Section, code, number, paragraph, picture, seconds, table
from beliefs.typing import Floats

__all__ = ["COUPLINGS", "SIDE", "compare", "grid_section"]

SIDE = 12
COUPLINGS = {"weak": 0.2, "medium": 0.5, "strong": 1.5}
_FIELD, _SEED, _ITERATIONS = 0.3, 1, 200


@dataclass(frozen=True, eq=False)
class Comparison:
    """One grid, answered exactly and by belief propagation."""

    word: str
    coupling: float
    exact: InferenceResult
    bp: InferenceResult

    @property
    def error(self) -> Floats:
        """Belief propagation less exact: probability of the second state, ``(n_vars,)``."""
        return (self.bp.mu_var - self.exact.mu_var)[1::2]

    @property
    def worst(self) -> float:
        """The largest error of a marginal."""
        return float(np.abs(self.error).max())


def compare(word: str, coupling: float, method: str = "bp") -> Comparison:
    """Draw the grid of a coupling and answer it both ways."""
    grid = make_ising_grid(SIDE, field=_FIELD, coupling=coupling, seed=_SEED)
    with quietly():  # the report prints the status
        return Comparison(word, coupling, infer(grid), infer(grid, method, max_iters=_ITERATIONS, trace_every=1))


def grid_section() -> Section:
    """Show marginals, errors and log Z for a weak, a medium and a strong coupling."""
    plain = [compare(word, coupling) for word, coupling in COUPLINGS.items()]
    damped = [compare(c.word, c.coupling, "bp(damping=0.5)") for c in plain if not c.bp.converged]
    both = [c for word in COUPLINGS for c in (*plain, *damped) if c.word == word]
    return Section(
        "Exact against approximate",
        _finding(plain),
        Markup(
            paragraph(
                f"Ising grids of {SIDE * SIDE} spins with fields from N(0, {_FIELD}²) and couplings from N(0, J²). "
                "The junction tree is exact; loopy belief propagation, ",
                code("infer(grid, 'bp')"),
                f", passes messages forward and backward, at most {_ITERATIONS} times.",
            )
            + _table(both)
            + _pictures(plain)
        ),
    )


def _finding(rows: list[Comparison]) -> str:
    errors = ", ".join(f"{number(c.worst, 3)} ({c.word})" for c in rows)
    grows = "grows with the coupling" if sorted(rows, key=lambda c: c.worst) == rows else "varies with the coupling"
    unsettled = [f"the {c.word} run, whose status says {c.bp.status}" for c in rows if not c.bp.converged]
    settled = f"all runs settled but {', '.join(unsettled)}" if unsettled else "all runs settled"
    return (
        f"On {SIDE} x {SIDE} spin glasses the largest error of a marginal by belief propagation {grows}: {errors}. "
        f"Its log Z is called an ESTIMATE throughout; {settled}."
    )


def _table(rows: list[Comparison]) -> Markup:
    head = (
        "coupling J",
        "method",
        "log Z",
        "less exact",
        "largest error",
        "mean error",
        "status",
        "iterations",
        "time",
    )
    lines: list[tuple[str, ...]] = []
    poor: list[int] = []
    seen: set[str] = set()
    for c in rows:
        if c.word not in seen:
            seen.add(c.word)
            lines.append((f"{c.coupling:g},\u00a0{c.word}", *_answer(c.exact), "", "", "", *_end(c.exact)))
        poor += [] if c.bp.converged else [len(lines)]
        errors = (c.bp.log_z - c.exact.log_z, c.worst, float(np.abs(c.error).mean()))
        digits = (number(errors[0], 3), number(errors[1], 4), number(errors[2], 4))
        lines.append(("", *_answer(c.bp), *digits, *_end(c.bp)))
    return table(head, lines, numeric=(2, 3, 4, 5, 7, 8), marked=poor)


def _answer(result: InferenceResult) -> tuple[str, str]:
    return code(str(result.method)), f"{result.bound.sign} {number(result.log_z, 3)}"


def _end(result: InferenceResult) -> tuple[str, str, str]:
    return str(result.status), str(result.n_iters) if result.method.iterative else "", seconds(result.seconds)


def _pictures(columns: list[Comparison]) -> Markup:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 10.8), layout="constrained")
    axes = figure.subplots(4, len(columns), gridspec_kw={"height_ratios": [1, 1, 1.1, 0.75]})
    shape = (SIDE, SIDE)
    for k, c in enumerate(columns):
        last = k == len(columns) - 1
        plot_grid(c.exact, shape, scale=last, label="exact probability of +1", ax=axes[0, k])
        axes[0, k].set_title(f"{c.word}, J = {c.coupling:g}", size=10)
        colours = difference_colours()
        label = "belief propagation less exact"
        plot_grid(c.error, shape, limits=(-0.6, 0.6), colours=colours, scale=last, label=label, ax=axes[1, k])
        plot_scatter(c.bp, c.exact, ax=axes[2, k])
        axes[2, k].set(xlabel="exact", ylabel="belief propagation" if k == 0 else "")
        plot_trace(c.bp, exact=c.exact.log_z, ax=axes[3, k])
        axes[3, k].set(xlabel="iteration", ylabel="log Z" if k == 0 else "")
        if k > 0:
            axes[3, k].get_legend().remove()
    return picture(
        figure,
        "Marginals, errors, scatter plots and traces for three couplings",
        "From top to bottom: exact marginals; error of belief propagation; its marginals against the exact ones; its "
        "estimate of log Z by iteration, the exact value dashed. The error maps share one scale.",
    )

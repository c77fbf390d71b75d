"""Answers for people: a few facts, then a table, cut to what one wants to read."""

from __future__ import annotations

import math
from collections.abc import Sequence

import click

from beliefs.cli.documents import Answer
from beliefs.cli.table import Table, on_terminal, show_facts, show_table, width
from beliefs.inference.result import InferenceResult
from beliefs.inference.states_result import MapResult, MarginalMapResult, SampleResult

__all__ = ["facts", "show_answer"]

_COLUMNS = 8  # states that get a column each where all variables have the same ones
_FRAME = 6  # characters around the two columns of a table
_LISTED = 8  # states of one variable that are listed otherwise, the most probable ones


def show_answer(result: Answer, shown: Sequence[int], limit: int) -> None:
    """Print what was found, how far to trust it, and the states of ``shown``, ``limit`` of them (0: all)."""
    show_facts(facts(result))
    if isinstance(result, SampleResult):
        _show_samples(result, shown, limit)
        return
    few = list(shown[:limit] if limit else shown)
    if few:
        show_table(_marginals(result, few) if isinstance(result, InferenceResult) else _assignment(result, few))
    _say_how_many_more(len(shown) - len(few), "variable")


def facts(result: Answer) -> list[tuple[str, str]]:
    """Return the answer's numbers and how they came about."""
    steps = f"{result.n_iters} step{'' if result.n_iters == 1 else 's'}"
    ending = f"{result.status} after {steps}, {result.seconds:.3g} s"
    why, _, stages = result.reason.partition("\n")
    method = [("method", f"{result.method} ({why})"), *([("stages", stages)] if stages else [])]
    return [*_values(result), *method, ("status", ending)]


def _values(result: Answer) -> list[tuple[str, str]]:
    if isinstance(result, InferenceResult):
        value = ("log Z", f"{result.bound.sign} {_number(result.log_z)} ({result.bound})")
        return [value, *_interval("log Z", result.log_lower, result.log_upper)]
    if isinstance(result, MapResult):
        return [("log score", f"{_number(result.log_score)} ({_proof(result.gap)})")]
    if isinstance(result, MarginalMapResult):
        sign = result.value_bound.sign
        value = ("log value", f"{sign} {_number(result.log_value)} ({result.value_bound}, {_proof(result.gap)})")
        return [value, *_interval("optimum", result.log_lower, result.log_upper)]
    law = "independent draws" if result.bound.name == "EXACT" else "not independent"
    return [("samples", f"{len(result)} ({law})")]


def _interval(what: str, lower: float, upper: float) -> list[tuple[str, str]]:
    if lower == upper or (lower == -math.inf and upper == math.inf):
        return []
    return [("certified", f"{_number(lower)} <= {what} <= {_number(upper)}")]


def _proof(gap: float) -> str:
    if gap == 0:
        return "proved optimal"
    return f"within {gap:.4g} of the optimum" if gap < math.inf else "no bound on the optimum"


def _number(value: float) -> str:
    return f"{value:.10g}"


def _probability(p: float) -> str:
    if p in (0.0, 1.0):
        return f"{p:.0f}"
    return f"{p:.5f}" if p >= 1e-4 else f"{p:.1e}"


def _marginals(result: InferenceResult, few: list[int]) -> Table:
    """One row a variable: a column for each state where all have the same ones, else the states in words."""
    naming, observed = result.graph.naming, result.graph.layout.observed
    names = [naming.name(v) + (" (observed)" if observed[v] else "") for v in few]
    common = naming.states(few[0])
    if len(common) <= _COLUMNS and all(naming.states(v) == common for v in few):
        rows = [(name, *map(_probability, result.marginal(v).tolist())) for name, v in zip(names, few, strict=True)]
        return Table(("variable", *common), rows, frozenset(range(1, len(common) + 1)))
    words = _aligned([_in_words(result, v) for v in few], width() - max(map(len, names)) - _FRAME)
    return Table(("variable", "marginal"), list(zip(names, words, strict=True)))


def _in_words(result: InferenceResult, v: int) -> list[str]:
    """Return ``label probability`` of the states in their order, the least probable ones of many together."""
    p, labels = result.marginal(v).tolist(), result.graph.naming.states(v)
    listed = sorted(sorted(range(len(p)), key=lambda x: -p[x])[:_LISTED])
    words = [f"{labels[x]} {_probability(p[x])}" for x in listed]
    if len(listed) < len(p):
        rest = max(0.0, 1.0 - math.fsum(p[x] for x in listed))
        words.append(f"{len(p) - len(listed)} others {_probability(rest)}")
    return words


def _aligned(rows: list[list[str]], room: int) -> list[str]:
    """Join the words of each row, in columns where these fit; a terminal breaks lines between words only."""
    widths = [max(len(row[k]) for row in rows if k < len(row)) for k in range(max(map(len, rows)))]
    if sum(widths) + 2 * len(widths) <= room:
        return ["  ".join(word.ljust(w) for word, w in zip(row, widths)).rstrip() for row in rows]
    return [_broken(row, room) if on_terminal() else "  ".join(row) for row in rows]


def _broken(words: list[str], room: int) -> str:
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 2 + len(word) <= room:
            lines[-1] += f"  {word}"
        else:
            lines.append(word)
    return "\n".join(lines)


def _assignment(result: MapResult | MarginalMapResult, few: list[int]) -> Table:
    naming, observed = result.graph.naming, result.graph.layout.observed
    rows = [(naming.name(v), result[v] + (" (observed)" if observed[v] else "")) for v in few]
    return Table(("variable", "state"), rows)


def _show_samples(result: SampleResult, shown: Sequence[int], limit: int) -> None:
    """One row a sample and as many columns as fit."""
    n_rows = min(len(result), limit) if limit else len(result)
    columns: list[tuple[str, list[str]]] = []
    room = width() - len(str(n_rows)) - 3
    for v in shown:
        name = result.graph.naming.name(v)
        labels = result[name][:n_rows].tolist()
        room -= 3 + max(map(len, [name, *labels]))
        if room < 0 and columns:
            break
        columns.append((name, labels))
    rows = [(str(k), *(labels[k] for _, labels in columns)) for k in range(n_rows)]
    show_table(Table(("", *(name for name, _ in columns)), rows, frozenset({0})))
    _say_how_many_more(len(result) - n_rows, "sample")
    if len(columns) < len(shown):
        click.echo(f"... and {len(shown) - len(columns)} more variables; --variables chooses, --csv prints all")


def _say_how_many_more(count: int, what: str) -> None:
    if count > 0:
        click.echo(f"... and {count} more {what}{'' if count == 1 else 's'}; --limit 0 shows all")

"""Joint models and tables of rows: what ``fit``, ``predict`` and ``score`` do with CSV and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from beliefs.cli.names import load_model
from beliefs.cli.options import json_flag
from beliefs.cli.stopping import Stoppable
from beliefs.cli.table import show_facts
from beliefs.datasets import bn_names
from beliefs.display.documents import json_text
from beliefs.errors import FormatError, ModelError
from beliefs.io import write
from beliefs.io.files import check_place, plain_name, write_bytes
from beliefs.io.formats import format_of, suffixes
from beliefs.model.graph import as_factor_graph
from beliefs.model.variable import suggestion

__all__ = ["fill_rows", "fit_joint", "print_facts", "score_command"]


def fit_joint(data: str, word: str, structure: str | None, output: str, options: dict[str, Any]) -> dict[str, Any]:
    """Fit a joint model to the rows of a file, write the model, and return what to tell."""
    from beliefs.learning.estimators.registry import learner

    check_place(output)
    format_of(output, written=True)
    if structure is None:
        raise ModelError(f"--model {word} needs --structure: a model, chow_liu, forest, or arcs such as a>b,b>c")
    cls = learner(word)
    given = structure_of(structure, cls.directed)

    def asked(stop: Callable[[Any], bool]) -> Any:
        return cls(given, **options, callback=stop).fit(data)

    run = Stoppable(asked)
    fitted = run.run()
    write(fitted.model_, output)
    result = fitted.result_
    facts = {
        "model": type(fitted.model_).__name__,
        "variables": fitted.model_.n_vars,
        "n_parameters": result.n_parameters,
        "log_likelihood": result.log_likelihood,
        "bound": result.bound.name,
        "status": result.status.name,
        "reason": result.reason,
        "n_iters": result.n_iters,
        "seconds": result.seconds,
        "output": output,
    }
    return facts | {"exit_code": run.exit_code}


def structure_of(text: str, directed: bool) -> Any:
    """Return what ``--structure`` means: a search, a model, arcs ``a>b``, or scopes ``a-b-c``, with commas between."""
    from beliefs.learning.networks.trees import SEARCHES

    searches = [search.name for search in SEARCHES]
    if text.partition("(")[0] in searches:
        return text
    if os.path.exists(text) or plain_name(text).endswith(suffixes()) or text in bn_names():
        return load_model(text)
    if not any(c in text for c in ">-,"):
        hint = suggestion(text.partition("(")[0], [*searches, *bn_names()])
        raise ModelError(f"--structure {text}: no search, no file and no network of that name{hint}")
    sign = ">" if directed else "-"
    parts = [tuple(name.strip() for name in part.split(sign)) for part in text.split(",")]
    if directed and any(len(part) != 2 for part in parts):
        raise ModelError(f"arcs are written parent>child with commas between, found {text!r}")
    return parts


def rows_of(model: Any, data: str) -> tuple[Any, list[str]]:
    """Return the rows of a file over a model's variables, and the columns it has."""
    from beliefs.io.rows import read_chunks
    from beliefs.model.rows.reading import read_rows

    graph = as_factor_graph(model)
    chunks = list(read_chunks(data))
    if not chunks:
        raise FormatError("the file has no rows", data)
    columns = [str(name) for name in chunks[0].columns]
    names = [graph.naming.name(v) for v in range(graph.n_vars)]
    return read_rows(iter(chunks), graph.naming, hidden=[name for name in names if name not in columns]), columns


def fill_rows(model: str, data: str, output: str | None) -> dict[str, Any]:
    """Write the rows of a file with every missing cell at its likeliest state; return what to tell.

    Without a file to write they are printed, and nothing is left to tell.
    """
    from beliefs.inference.rows.posteriors import filled_rows

    if output is not None:
        check_place(output)
        if not plain_name(output).endswith(".csv"):
            raise FormatError("filled rows are written to a file that ends in .csv", output)
    loaded = load_model(model)
    table, columns = rows_of(loaded, data)
    filled = filled_rows(as_factor_graph(loaded), table)
    order = [*columns, *(name for name in filled.names if name not in columns)]
    values = dict(zip(filled.names, filled.labelled(), strict=True))
    import pandas as pd

    text = pd.DataFrame({name: values[name] for name in order}).to_csv(index=False)
    if output is None:
        click.echo(text, nl=False)
        return {}
    write_bytes(output, text.encode())
    return {"rows": filled.n_rows, "filled": int(table.n_missing.sum()), "output": output}


@click.command("score")
@click.argument("model", metavar="MODEL")
@click.argument("data", metavar="DATA.csv")
@click.option("--method", "-m", default="auto", show_default=True, help="For log Z of models that are no networks.")
@json_flag
def score_command(model: str, data: str, method: str, as_json: bool) -> None:
    """Tell the log-likelihood of the rows of DATA.csv under a model.

    The file has a line of names, and cells are labels of states; empty ones are summed out, and so are variables
    without a column. Parquet files are read, too.
    """
    from beliefs.inference import log_likelihood

    loaded: Any = load_model(model)
    table, _ = rows_of(loaded, data)
    found = log_likelihood(loaded, table, method)
    facts = {
        "rows": table.n_rows,
        "mean log-likelihood": found.mean,
        "total": float(found.per_row.sum()),
        "bound": found.bound.name,
    }
    print_facts(facts, as_json)


def print_facts(facts: dict[str, Any], as_json: bool) -> None:
    """Print facts, as a table or as JSON."""
    if as_json:
        click.echo(json_text(facts), nl=False)
        return
    shown = {name: value for name, value in facts.items() if value is not None}
    show_facts([(name, f"{value:.6g}" if isinstance(value, float) else str(value)) for name, value in shown.items()])

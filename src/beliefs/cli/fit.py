"""The commands that learn: ``fit`` makes a model of data, ``predict`` asks it about new inputs."""

from __future__ import annotations

import ast
import math
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from beliefs.cli.data import archive_bytes, in_files, plain_form, read_data
from beliefs.cli.joint import fill_rows, fit_joint, print_facts
from beliefs.cli.options import json_flag
from beliefs.cli.plain_data import check_label_place, labels_in_table, write_labels
from beliefs.cli.stopping import Stoppable
from beliefs.driver import Status
from beliefs.elsewhere import meant_option
from beliefs.errors import BeliefsError, FormatError, ModelError
from beliefs.io.files import check_place, write_bytes
from beliefs.io.rows import is_table
from beliefs.model.variable import suggestion

__all__ = ["fit_command", "predict_command"]

_OWN = {"callback": "Ctrl-C stops a fit", "n_jobs": "use --threads", "progress": "use --progress"}


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # takes no type in older releases


class EstimatorWord(_Choice):
    """The words of all estimators, which are loaded when they are asked for: the other commands need no learning."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        """The words."""
        from beliefs.learning.estimators.registry import estimator_words, learner_words

        return (*estimator_words(), *learner_words())

    @choices.setter
    def choices(self, _: object) -> None:
        """Nothing is kept."""


class LossOption(click.Option):
    """An option whose help ends with the names of all losses, which are loaded for that alone."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help."""
        from beliefs.learning.losses.registry import loss_names

        found = super().get_help_record(ctx)
        return None if found is None else (found[0], f"{found[1]} Known are {', '.join(loss_names())}.")


_progress = click.option("--progress/--no-progress", default=None, help="Show progress; by default on a terminal.")
_threads = click.option(
    "--threads", type=int, default=1, show_default=True, help="Instances side by side; -1: all cores."
)
_output = click.option("--output", "-o", required=True, metavar="FILE", help="File to write.")


@click.command("fit")
@click.argument("data", metavar="DATA")
@click.option("--model", "-m", type=EstimatorWord(), required=True, help="What the instances are.")
@_output
@click.option(
    "--structure",
    metavar="TEXT",
    help="Of bn and mrf: a model, a search such as chow_liu, arcs a>b,b>c or scopes a-b,b-c.",
)
@click.option(
    "--loss", metavar="LOSS", cls=LossOption, help='Such as clique_logistic or "smoothed_classification(alpha=15)".'
)
@click.option("--inference", metavar="METHOD", help="Such as trw, bp, mean_field or junction_tree.")
@click.option("--n-sweeps", type=int, metavar="N", help="Sweeps of inference.")
@click.option("--l2", type=float, help="Ridge, relative to the loss per labelled variable.")
@click.option("--C", "C", type=float, help="Of machines with a margin: what losses count beside half the squared norm.")
@click.option("--eps-y", type=float, metavar="T", help="Of machines: the temperature of outputs; 0 maximises, 1 sums.")
@click.option("--eps-h", type=float, metavar="T", help="Of machines: the temperature of hidden variables.")
@click.option("--delta", metavar="WORD", help="Of machines: what wrong labels cost: hamming, zero_one or none.")
@click.option("--l1", type=float, help="Lasso, likewise.")
@click.option("--optimizer", metavar="OPTIMIZER", help='Such as lbfgs, or "adam(step=0.01)" for many instances.')
@click.option("--max-iters", type=int, metavar="N", help="Iterations after which to stop.")
@click.option("--tol", type=float, help="Gradient at which to stop.")
@click.option("--n-states", type=int, metavar="K", help="States; by default as many as the labels need.")
@click.option(
    "--init", metavar="WORD", help="Where to start: zeros, independent, random, or a loss to be fitted first."
)
@click.option("--validation", type=float, metavar="SHARE", help="Share of the instances held out to stop early.")
@click.option("--checkpoint", metavar="FILE.npz", help="Kept up to date; a fit that was killed goes on from it.")
@click.option("--cluster", metavar="ADDRESS", help="Of a dask scheduler, whose workers hold the instances.")
@click.option("--seed", type=int, help="Seed of all random choices.")
@click.option("--option", "-O", "more", multiple=True, metavar="NAME=VALUE", help="Any other option of the model.")
@_threads
@_progress
@json_flag
def fit_command(
    data: str, model: str, output: str, more: tuple[str, ...], threads: int, progress: bool | None, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Fit a random field, a machine or a network to data.

    For random fields, machines with a margin and Boltzmann machines DATA.npz has arrays X and Y with a first axis of
    instances, or X_0, Y_0, X_1, Y_1, ...; labels are integers from 0, -1 where hidden. Graphs also have edges and
    edge_features, and a mask of hidden vertices; machines with a margin take costs, what each label of each variable
    costs. Boltzmann machines take rows of bits, and no labels; conditional ones (crbm) rows of inputs X and of bits Y.
    Grids also take a folder with images/*.png and labels/*.png of the same names, and chains a DATA.csv with a line a
    token, blank lines or a column sequence between sequences, and a column label. A folder of such .npz files is read
    file by file, and may be larger than memory. Networks (bn) and fields (mrf) take a table of rows, DATA.csv or
    DATA.parquet, and are written as models.
    """
    address = options.pop("cluster")
    with _engaged(address):
        _fit(data, model, output, more, threads, progress, as_json, options)


def _engaged(address: str | None) -> AbstractContextManager[object]:
    """Return the cluster at an address, to be entered; without one nothing."""
    if address is None:
        return nullcontext()
    from beliefs.learning.cluster import cluster

    return cluster(address)


def _fit(
    data: str, model: str, output: str, more: tuple[str, ...], threads: int, progress: bool | None, as_json: bool,
    options: dict[str, Any],
) -> None:  # fmt: skip
    from beliefs.learning.estimators.registry import estimator, learner_words

    if model in learner_words():
        _fit_joint(data, model, output, more, threads, progress, as_json, options)
        return
    structure = options.pop("structure")
    if structure is not None:
        raise ModelError(f"--structure is of {' and '.join(learner_words())}; --model {model} has none")
    _check_output(output, data, options["checkpoint"])
    cls: Any = estimator(model)
    chosen = {cls.option_names.get(name, name): value for name, value in options.items() if value is not None}
    _check_known(cls, chosen)
    chosen |= _further(more, cls, chosen)
    examples = None if in_files(data) else read_data(data, model)
    labels = None if examples is None else examples.labels
    if examples is not None and labels is None and cls.labelled:
        raise FormatError("there are no labels Y to fit to", data)
    shown = sys.stderr.isatty() if progress is None else progress

    def asked(stop: Callable[[Any], bool]) -> Any:
        crf = cls(**chosen, n_jobs=threads, progress=shown, callback=stop)
        if examples is None:
            return crf.fit(data)
        costs = {} if examples.costs is None else {"costs": examples.costs}
        return crf.fit(examples.inputs, labels, **costs)

    run = Stoppable(asked)
    crf = run.run()
    crf.save(output)
    result = crf.result_
    facts = {
        "model": cls.__name__,
        "loss": result.loss,
        "objective": getattr(crf, "objective_", None),
        "gap": _known(getattr(crf, "gap_", None)),
        "status": result.status.name,
        "reason": result.reason,
        "n_iters": result.n_iters,
        "seconds": result.seconds,
        "n_weights": int(crf.weights_.size),
        "n_states": getattr(crf, "n_states_", None),
        "n_instances": None if examples is None else len(examples.inputs),
        _score_name(cls): None,
        "output": output,
    }
    if examples is not None and result.status is not Status.STOPPED:  # what is larger than memory is not read again
        facts[_score_name(cls)] = crf.score(examples.inputs, labels)
    print_facts(facts, as_json)
    if run.received:
        raise click.exceptions.Exit(run.exit_code)


@click.command("predict")
@click.argument("model", metavar="MODEL")
@click.argument("data", metavar="DATA")
@click.option("--output", "-o", metavar="FILE", help="File to write; rows are printed without.")
@click.option(
    "--decode", type=click.Choice(("auto", "mpm", "map", "mean")), help="By default what the model was made for."
)
@click.option("--marginals", is_flag=True, help="Write the marginals as well.")
@_threads
@json_flag
def predict_command(
    model: str, data: str, output: str | None, decode: str | None, marginals: bool, threads: int, as_json: bool
) -> None:
    """Predict the labels of the inputs in DATA.npz by a model that fit has written.

    The file that is written has Y, or Y_0, Y_1, ... as the inputs have; with --marginals also marginals. Where DATA.npz
    has labels, the share that is predicted is told. Of Boltzmann machines it is H, the probabilities of hidden units.
    Grids also take a folder with images/*.png, and chains a DATA.csv with a line a token, as for fit; labels are then
    also written as PNG files into a new folder, or as such a table: name one in place of OUT.npz.
    Where DATA is a table of rows, .csv or .parquet, MODEL is any model, and the rows are written, or printed, with
    every missing cell at its likeliest state.
    """
    if is_table(data) and not _takes_tokens(model):
        if decode is not None or marginals:
            raise ModelError("rows are filled in one way; leave out --decode and --marginals")
        if output is None and as_json:
            raise ModelError("--json tells of a file; give it by --output, or leave --json out to print rows")
        facts = fill_rows(model, data, output)
        if facts:
            print_facts(facts, as_json)
        return
    if output is None:
        raise click.MissingParameter(param_hint="'--output' / '-o'", param_type="option")
    form = plain_form(data)
    if form and not output.lower().endswith(".npz"):
        check_label_place(output, data, form, marginals)
    else:
        _check_output(output, model, data)
        form = ""
    from beliefs.learning.estimators.registry import load_estimator, word_of

    crf: Any = load_estimator(model)
    crf.set_params(n_jobs=threads)
    examples = read_data(data, word_of(type(crf)))
    if marginals and not crf.labelled:
        raise ModelError(f"{type(crf).__name__} predicts no labels; leave out --marginals")
    if decode is not None and "decode" not in crf.get_params():
        raise ModelError(f"{type(crf).__name__} has one way to predict; leave out --decode")
    if not crf.labelled:
        columns = {"H": list(crf.transform(examples.inputs))}
    else:
        columns = {"Y": crf.predict(examples.inputs) if decode is None else crf.predict(examples.inputs, decode)}
    if marginals:
        columns["marginals"] = crf.predict_marginals(examples.inputs)
    known = examples.labels is not None or not crf.labelled
    score = crf.score(examples.inputs, examples.labels) if known else None
    if form == "images":
        write_labels(data, output, columns["Y"])
    else:
        write_bytes(output, labels_in_table(data, columns["Y"]) if form else archive_bytes(columns, examples.stacked))
    print_facts({"n_instances": len(examples.inputs), _score_name(type(crf)): score, "output": output}, as_json)


def _takes_tokens(model: str) -> bool:
    """Whether a file holds a model of sequences, for which a table has a line a token."""
    from beliefs.learning.estimators.registry import load_estimator

    if not model.lower().endswith(".npz"):
        return False
    try:
        form = getattr(load_estimator(model), "data_form", None)
    except BeliefsError:
        return False
    return form is not None and form.files == "tokens"


def _fit_joint(
    data: str, model: str, output: str, more: tuple[str, ...], threads: int, progress: bool | None, as_json: bool,
    options: dict[str, Any],
) -> None:  # fmt: skip
    """Fit a joint model to a table of rows."""
    from beliefs.learning.estimators.registry import learner

    cls = learner(model)
    structure = options.pop("structure")
    chosen = {name: value for name, value in options.items() if value is not None}
    _check_known(cls, chosen)
    chosen |= _further(more, cls, chosen)
    shown = sys.stderr.isatty() if progress is None else progress
    facts = fit_joint(data, model, structure, output, chosen | {"n_jobs": threads, "progress": shown})
    code = facts.pop("exit_code")
    print_facts(facts, as_json)
    if code:
        raise click.exceptions.Exit(code)


def _check_output(path: str, *others: str | None) -> None:
    """Refuse what cannot be written before any work."""
    if not path.lower().endswith(".npz"):
        raise FormatError("the file to write must end in .npz", path)
    check_place(path)
    if any(other is not None and os.path.realpath(other) == os.path.realpath(path) for other in others):
        raise FormatError("that file is read or kept by this very command; give --output another name", path)


def _score_name(cls: Any) -> str:
    return "accuracy" if cls.labelled else "pseudo_log_likelihood"


def _known(number: float | None) -> float | None:
    return None if number is None or math.isinf(number) else number


def _check_known(cls: Any, chosen: dict[str, Any]) -> None:
    """Refuse options that the model does not have."""
    known = cls._get_param_names()
    for name in chosen:
        if name not in known:
            hint = {"l2": "; it has --C", "l1": "; it has --C"}.get(name, suggestion(name, known))
            raise ModelError(f"{cls.__name__} has no option --{name.replace('_', '-')}{hint}")


def _further(more: tuple[str, ...], cls: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return options written NAME=VALUE; values are numbers, True, False, None or words."""
    known, found = [name for name in cls._get_param_names() if name not in _OWN], dict[str, Any]()
    for text in more:
        name, sign, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign:
            raise ModelError(f"--option is written NAME=VALUE, found {text!r}")
        if name in _OWN:
            raise ModelError(f"{name} is not an option of the model here; {_OWN[name]}")
        if name in chosen or name in found:
            raise ModelError(f"{name} is given twice")
        if name not in known:
            hint = meant_option(name, known) or f"; it has {', '.join(known)}"
            raise ModelError(f"{cls.__name__} has no option {name!r}{hint}")
        try:
            found[name] = ast.literal_eval(value.strip())
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            found[name] = value.strip()
    return found

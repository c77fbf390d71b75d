"""All commands, in the order of a first visit; one module a group of them."""

from __future__ import annotations

import os

import click

from beliefs import __version__
from beliefs.cli.files import convert_command
from beliefs.cli.fit import fit_command, predict_command
from beliefs.cli.info import info_command
from beliefs.cli.joint import score_command
from beliefs.cli.methods import methods_command
from beliefs.cli.program import Program
from beliefs.cli.questions import infer_command, marginal_map_command, maximize_command, sample_command
from beliefs.cli.uai import uai_command
from beliefs.cli.warmup import warmup_command
from beliefs.io import formats

__all__ = ["commands"]


def help_text() -> str:
    """Return what the program says of itself, with the formats it knows."""
    known = ", ".join(suffix for form in formats.FORMATS for suffix in form.suffixes)
    return (
        "Inference in discrete graphical models, with answers that say how far to trust them.\n\n"
        f"MODEL is a file ({known}, also .gz, .xz and .bz2) or the name of a network that comes with the package, such "
        "as alarm."
    )


_EXAMPLES = """\b
Examples:
  beliefs info alarm --states --limit 5
  beliefs infer alarm --evidence HR=HIGH,BP=LOW
  beliefs infer model.uai --time-limit 60
  beliefs fit rows.csv --model bn --structure chow_liu -o model.bif
"""


@click.group(
    "beliefs",
    cls=Program,
    help=help_text(),
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False),
    help="Folder of further networks and data sets; the environment's BELIEFS_DATA otherwise.",
)
@click.version_option(__version__, prog_name="beliefs", message="%(prog)s %(version)s")
@click.pass_context
def commands(context: click.Context, data: str | None) -> None:
    """Run without a command: show the help."""
    if data is not None:
        os.environ["BELIEFS_DATA"] = data
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (
    info_command,
    infer_command,
    maximize_command,
    marginal_map_command,
    sample_command,
    fit_command,
    predict_command,
    score_command,
    convert_command,
    methods_command,
    warmup_command,
    uai_command,
):
    commands.add_command(command)

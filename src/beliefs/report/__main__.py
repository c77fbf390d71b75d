"""``python -m beliefs.report --output report/index.html``."""

from __future__ import annotations

import os
import sys

import click

from beliefs.errors import BeliefsError
from beliefs.report import write_report

__all__ = ["main"]


@click.command()
@click.option("--output", "-o", default="report/index.html", show_default=True, help="Where the page is written.")
@click.option("--data", type=click.Path(exists=True, file_okay=False), help="Folder of data sets (BELIEFS_DATA).")
@click.option("--quiet", is_flag=True, help="Do not say what is being done.")
def main(output: str, data: str | None, quiet: bool) -> None:
    """Run the demonstration and write it as one HTML page."""
    if data is not None:
        os.environ["BELIEFS_DATA"] = data
    try:
        path = write_report(output, None if quiet else lambda text: click.echo(f"... {text}", err=True))
    except (BeliefsError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    click.echo(path)


if __name__ == "__main__":
    main(prog_name="python -m beliefs.report")

"""How the command ends: one line for each error, one exit code for each kind of ending.

====  ==========================================================================
code  meaning
====  ==========================================================================
0     answered (a method that did not converge is an answer, with a warning)
2     the request was wrong or cannot be met: one line on standard error
130   stopped by Ctrl-C; what was printed or written is whole
141   whoever read the output closed it
====  ==========================================================================
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from beliefs.cli.first_use import explained_wait
from beliefs.errors import BeliefsError, ConvergenceWarning, DataWarning

__all__ = ["INTERRUPTED", "Program"]

WRONG, INTERRUPTED, CLOSED = 2, 130, 141
_LAST_STANDARD = 2  # standard input, output and error are the files 0, 1, 2


class Program(click.Group):
    """The group of all commands; lists them in the order of a first visit."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)

    def invoke(self, context: click.Context) -> Any:
        """Run a command; a closed pipe ends it quietly."""
        try:
            with _one_line_warnings(), explained_wait():
                done = super().invoke(context)
            sys.stdout.flush()
            return done
        except BrokenPipeError:
            _discard_output()
            raise click.exceptions.Exit(CLOSED) from None

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the program and exit with its code; see the module's table."""
        settings["standalone_mode"] = False
        _replace_closed_streams()
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show is no reason to fail
                stream.reconfigure(errors="backslashreplace")
        try:
            code = super().main(*args, **settings)
        except click.Abort:
            code = _report_error("interrupted", INTERRUPTED)
        except click.ClickException as error:
            code = _report_error(error.format_message())
        except BeliefsError as error:
            code = _report_error(str(error))
        except MemoryError:
            code = _report_error("the machine has no more memory; lower --max-bytes or choose another --method")
        except OSError as error:
            _discard_output()
            code = _report_error(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))
        sys.exit(code if isinstance(code, int) else 0)


def _report_error(message: str, code: int = WRONG) -> int:
    line = " ".join(part.strip() for part in message.splitlines())
    try:
        click.echo(f"beliefs: error: {line}" if code == WRONG else f"beliefs: {line}", err=True)
    except OSError:  # nobody listens
        pass
    return code


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        click.echo(f"beliefs: warning: {message}", err=True)

    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, DataWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield


def _replace_closed_streams() -> None:
    """Let output that the shell closed (``>&-``) go nowhere.

    Python has None for such a stream, and the system gives its number to the next file that is opened, into which a
    line for the user must never go.
    """
    if sys.stdout is not None and sys.stderr is not None:
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(number)
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")


def _discard_output() -> None:
    """Send what is still in Python's buffer nowhere, so that the interpreter ends without a complaint."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # standard output is not a file of the system (tests)
        pass

"""The command ``beliefs``: the four questions, and what goes with them, from the shell.

One module a group of commands; :mod:`beliefs.cli.program` turns every error into one line and an exit code. Little is
imported here, so that Ctrl-C is answered well from the start.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from beliefs.cli.group import commands

__all__ = ["commands", "main"]

_INTERRUPTED = 130  # as in beliefs.cli.program, which is not there yet


def main() -> None:
    """Run the command line and exit."""
    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else whoever started us decides
    if default:
        signal.signal(signal.SIGINT, _leave)
    from beliefs.cli.group import commands

    if default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    commands.main(prog_name="beliefs")


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """End at once: an exception in the middle of loading modules would surface as something else."""
    os.write(2, b"beliefs: interrupted\n")
    os._exit(_INTERRUPTED)


def __getattr__(name: str) -> Any:
    if name != "commands":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from beliefs.cli.group import commands

    return commands

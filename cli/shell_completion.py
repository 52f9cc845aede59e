"""`tailrace completion SHELL`: prints a script with which a shell completes commands and options.

The library shtab makes the script from the parsers of all commands, so nothing has to be kept up to date by hand.
"""

import argparse
import re
from collections.abc import Mapping

from .main import whole_parser

SHELLS = ("bash", "zsh", "fish", "tcsh")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"One of {', '.join(SHELLS)}.")


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    import shtab  # imported here because `whole_parser` imports this module even if no script is made

    parser = whole_parser()
    _prepare(parser, {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY})
    print(shtab.complete(parser, arguments.shell))
    return 0


def _prepare(parser: argparse.ArgumentParser, by_metavar: Mapping[str, object]) -> None:
    """Lets the shell complete names of files and directories, and simplifies what it shows of other arguments.

    zsh takes a colon in the name of an argument for the end of the name.
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _prepare(each, by_metavar)
        elif isinstance(action.metavar, str):
            if action.metavar in by_metavar:
                action.complete = by_metavar[action.metavar]  # type: ignore[attr-defined]  # shtab looks for it
            action.metavar = re.sub(r"[^A-Za-z0-9_-]+", " ", action.metavar).strip()

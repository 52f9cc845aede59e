"""`tailrace completion SHELL`: prints a script with which a shell completes commands and options.

The library shtab makes the script from the parsers of all commands, so nothing has to be kept up to date by hand.
"""

import argparse
from collections.abc import Mapping

from .main import whole_parser

SHELLS = ("bash", "zsh", "fish", "tcsh")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"One of {', '.join(SHELLS)}.")


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    import shtab  # imported here because every parser of all commands imports this module

    parser = whole_parser()
    _complete_paths(parser, {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY})
    print(shtab.complete(parser, arguments.shell))
    return 0


def _complete_paths(parser: argparse.ArgumentParser, by_metavar: Mapping[str, object]) -> None:
    """Lets the shell complete the names of files and directories where arguments take them."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _complete_paths(each, by_metavar)
        elif isinstance(action.metavar, str) and action.metavar in by_metavar:
            action.complete = by_metavar[action.metavar]  # type: ignore[attr-defined]  # shtab looks for this attribute

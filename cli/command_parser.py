"""Parses the arguments of one command. Its help has examples, and its errors guess what was meant."""

import argparse
import os
from collections.abc import Sequence

from tailrace.cluster.similar_names import similar

from .output.tones import NO_COLOR


class CommandParser(argparse.ArgumentParser):
    """An argument parser in the style of the command line."""

    def __init__(self, program: str, text: str, command: str | None = None) -> None:
        """Takes the words of the command as it was typed, what it does, and its name in the table of examples."""
        super().__init__(
            prog=program, description=text, add_help=False, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.command = command
        self.add_argument("-h", "--help", action=_Help, help="Show this help and exit.")

    def add_last(self) -> None:
        """Adds the options that each command has, after its own."""
        self.add_argument("--no-color", action=_NoColor, help=f"Show no colours, as with {NO_COLOR}=1.")

    def parse_all(self, words: Sequence[str]) -> argparse.Namespace:
        """Parses arguments. Exits with status 2 if some are wrong, and names options that were perhaps meant."""
        arguments, extras = self.parse_known_args(words)
        if extras:
            options = [option for action in self._actions for option in action.option_strings]
            guesses = [similar(each.partition("=")[0], options) for each in extras if each.startswith("--")]
            found = " or ".join(guess for guess in guesses if guess is not None)
            self.error(f"unrecognized arguments: {' '.join(extras)}" + (f"; did you mean {found}?" if found else ""))
        return arguments


class _Help(argparse.Action):
    """Prints the help with the examples, which are imported only now."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        if isinstance(parser, CommandParser) and parser.command is not None:
            from .examples import EXAMPLES

            examples = EXAMPLES.get(parser.command, ())
            parser.epilog = "\n".join(["examples:", *(f"  {each}" for each in examples)]) if examples else None
        parser.print_help()
        parser.exit()


class _NoColor(argparse.Action):
    """Turns colours off by the environment variable, which logs, libraries and child processes respect as well."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, *_: object) -> None:
        os.environ[NO_COLOR] = "1"

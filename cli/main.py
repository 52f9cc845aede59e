"""The `tailrace` command: one module per subcommand, each with `configure(parser)` and `run(arguments) -> exit status`.

Modules are imported only for the subcommand that is called: `tailrace up` must not pay for the rest.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from tailrace import __version__

_COMMANDS = {
    "up": ("tailrace.cli.up", "run a whole local cluster in this process"),
    "log dump": ("tailrace.cli.log_dump", "print the batches of a log file, or the entries of an index"),
    "log verify": ("tailrace.cli.log_verify", "check every byte of the logs below a directory"),
}
_GROUPS = {"log": "look into log files, offline"}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(sys.argv[1:] if argv is None else argv)
    try:
        status: int = arguments.run(arguments)
    except KeyboardInterrupt:
        # As a shell reports a command that SIGINT ended.
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
        return 0
    return status


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command, with its `run`. Exits with the usage when they are none."""
    parser = argparse.ArgumentParser(prog="tailrace", description="A Kafka-protocol broker cluster, without a JVM.")
    parser.add_argument("--version", action="version", version=f"tailrace {__version__}")
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True)
    groups = {
        group: subcommands.add_parser(group, help=text).add_subparsers(metavar="COMMAND", required=True)
        for group, text in _GROUPS.items()
    }
    for command, (module_name, text) in _COMMANDS.items():
        group, _, name = command.rpartition(" ")
        subparser = (groups[group] if group else subcommands).add_parser(name, help=text, description=text)
        if list(words[: len(command.split())]) == command.split():
            module = importlib.import_module(module_name)
            module.configure(subparser)
            subparser.set_defaults(run=module.run)
    return parser.parse_args(words)

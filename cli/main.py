"""The `tailrace` command: finds the subcommand, imports its module, and runs it.

The module of a single subcommand has the functions `configure(parser)` and `run(arguments)`, which returns the exit
status. The module of a family has a dictionary `COMMANDS`, whose values have both methods. Only the module of the given
subcommand is imported, so that `tailrace up` does not pay for the others.
"""

import argparse
import gc
import importlib
import os
import select
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from tailrace import __version__

from .output.tones import NO_COLOR

_PROGRAM = "tailrace"
WRONG_SYSTEM = (
    "this system is not Linux, and Tailrace needs Linux's epoll. Run it in a Linux container or virtual machine; "
    "Kafka clients on this system can use it there."
)
_COMMANDS = {
    "up": ("serving.up", "Run a whole local cluster."),
    "status": ("health.status_command", "Show what runs, what is wrong, and what to do."),
    "serve sc": ("serving.serve_sc", "Run the Streaming Controller of a cluster."),
    "serve spu": ("serving.serve_spu", "Run an SPU of a cluster."),
    "spu register": ("objects.spu_commands", "Register SPUs, so that they may join the cluster."),
    "spu list": ("objects.spu_commands", "List the SPUs and whether they are online."),
    "spu describe": ("objects.spu_commands", "Show SPUs in detail, with their controllers."),
    "spu unregister": ("objects.spu_commands", "Remove an SPU from the cluster."),
    "spu-group create": ("objects.spu_group_commands", "Create a group of SPUs, which the cluster starts."),
    "spu-group list": ("objects.spu_group_commands", "List the SPU groups."),
    "spu-group describe": ("objects.spu_group_commands", "Show SPU groups in detail."),
    "spu-group scale": ("objects.spu_group_commands", "Change the number of SPUs in a group."),
    "spu-group delete": ("objects.spu_group_commands", "Stop all SPUs of a group and delete the group."),
    "topic create": ("objects.topic_commands", "Create topics; a topic waits if there are too few SPUs."),
    "topic list": ("objects.topic_commands", "List the topics, or the deleted ones."),
    "topic describe": ("objects.topic_commands", "Show topics in detail."),
    "topic delete": ("objects.topic_commands", "Delete a topic; for some time it can be restored."),
    "topic undelete": ("objects.topic_commands", "Restore a deleted topic with its data."),
    "topic alter": ("objects.topic_commands", "Change the configs of a topic, or add partitions."),
    "partition list": ("objects.partition_commands", "List partitions with their leaders, replicas and lags."),
    "partition describe": ("objects.partition_commands", "Show the replicas, shelves and epochs of partitions."),
    "partition states": (
        "objects.partition_commands",
        "Print the transitions between the statuses of a partition as a diagram.",
    ),
    "replica list": ("objects.replica_commands", "List the replicas that each SPU reports."),
    "segment list": ("objects.segment_commands", "List the segments of a topic and the SPUs that hold copies."),
    "produce": ("records.produce_command", "Send the lines of standard input to a topic."),
    "consume": ("records.consume_command", "Print the records of a topic."),
    "group list": ("groups.group_commands", "List the consumer groups."),
    "group describe": ("groups.group_commands", "Show the members, offsets and lags of groups."),
    "group explain": ("groups.group_commands", "Explain why a group rebalances, and what would help."),
    "group reset-offsets": ("groups.group_commands", "Change the committed offsets of a group."),
    "group delete": ("groups.group_commands", "Delete groups, or the offsets that they committed to a topic."),
    "controller list": ("objects.controller_commands", "List the controllers of the Streaming Controller."),
    "connection list": (
        "objects.connection_commands",
        "List the connections between SPUs and the Streaming Controller.",
    ),
    "draw cluster": ("pictures.draw_commands", "Draw the SC, the SPUs, and which SPU copies from which."),
    "draw partition": ("pictures.draw_commands", "Draw the leader, followers, readers and segments of a partition."),
    "apply": ("objects.apply_command", "Create or change SPUs, SPU groups and topics as files describe them."),
    "log dump": ("files.log_dump", "Print the batches of a log file, or the entries of an index or other file."),
    "log verify": ("files.log_verify", "Check every byte of the logs in a directory."),
}
"""The module of each command, relative to `tailrace.cli`, and its description."""
_ALIASES = {
    f"show {name}s": f"{name} list"
    for name in ("spu", "spu-group", "topic", "partition", "replica", "segment", "group", "controller", "connection")
}
_GROUPS = {
    "serve": "Run one server of a cluster.",
    "spu": "Manage SPUs.",
    "spu-group": "Manage groups of SPUs that the cluster starts and stops.",
    "topic": "Manage topics.",
    "partition": "Inspect partitions.",
    "replica": "Inspect the replicas that SPUs hold.",
    "segment": "Inspect the segments of partitions.",
    "group": "Manage consumer groups.",
    "controller": "Inspect the controllers of the Streaming Controller.",
    "connection": "Inspect the connections between SPUs and the Streaming Controller.",
    "draw": "Draw the cluster or a partition.",
    "show": "List objects; short for the list commands.",
    "log": "Inspect log files offline.",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status."""
    _replace_missing_streams()
    try:
        try:
            arguments = parse(sys.argv[1:] if argv is None else argv)
            status: int = arguments.run(arguments)
        finally:
            # Python would flush at its exit too, but report an error in its own way.
            sys.stdout.flush()
    except KeyboardInterrupt:
        # A shell reports the same status for a command that SIGINT ended.
        return 130
    except OSError as error:
        return _end_of_output(error)
    return status


def _replace_missing_streams() -> None:
    """Opens `/dev/null` in place of each standard stream that the parent process has closed.

    Otherwise the next file that is opened, for example a log, would get the number of the stream, and everything
    written to the stream would go into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The file stays open. It gets the smallest free number, which is that of the stream.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _end_of_output(error: OSError) -> int:
    """Returns the exit status if standard output takes no more; raises the error again if it has another cause."""
    if not isinstance(error, BrokenPipeError):
        try:
            # This fails if standard output is broken. If Python does not buffer, nothing is left to be written.
            print(flush=True)
        except OSError:
            print(f"{_PROGRAM}: standard output: {error.strerror}", file=sys.stderr)
        else:
            raise error
    # Drop what could not be written, so that Python does not retry at its exit.
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    # A reader that closes the pipe has read all that it wants.
    return 0 if isinstance(error, BrokenPipeError) else 1


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parses the arguments of one command and adds its `run`. Prints the usage and exits if they are wrong."""
    command = next((each for each in (*_COMMANDS, *_ALIASES) if _begins_with(words, each)), None)
    if command is None:
        _explain(words)
    return _parse_command(command, words[len(command.split()) :])


def _begins_with(words: Sequence[str], command: str) -> bool:
    return list(words[: len(command.split())]) == command.split()


def _parse_command(command: str, words: Sequence[str]) -> argparse.Namespace:
    """Parses with the parser of this command alone; to create those of all commands would take noticeable time."""
    if not hasattr(select, "epoll"):
        print(f"{_PROGRAM}: {WRONG_SYSTEM}", file=sys.stderr)
        sys.exit(1)
    meant = _ALIASES.get(command, command)
    module_name, text = _COMMANDS[meant]
    module = _import(f"tailrace.cli.{module_name}")
    runnable = getattr(module, "COMMANDS", {}).get(meant.rpartition(" ")[2], module)
    parser = _parser(f"{_PROGRAM} {command}", text)
    runnable.configure(parser)
    parser.set_defaults(run=runnable.run)
    return parser.parse_args(words)


def _explain(words: Sequence[str]) -> NoReturn:
    """Prints the help that was asked for, or says that there is no such command, and exits."""
    parser = _parser_of_all()
    parser.parse_args(words)
    parser.error("the first argument must be a command")


def _parser_of_all() -> argparse.ArgumentParser:
    """Makes a parser that knows the commands but not their arguments."""
    parser = _parser(_PROGRAM, "Run and manage a Kafka-protocol broker cluster.")
    parser.add_argument(
        "--version", action="version", version=f"{_PROGRAM} {__version__}", help="Show the version and exit."
    )
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True)
    groups = {
        group: _add_parser(subcommands, group, text).add_subparsers(metavar="COMMAND", required=True)
        for group, text in _GROUPS.items()
    }
    for command in (*_COMMANDS, *_ALIASES):
        _, text = _COMMANDS[_ALIASES.get(command, command)]
        group, _, name = command.rpartition(" ")
        _add_parser(groups[group] if group else subcommands, name, text)
    return parser


def _add_parser(
    subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    return _with_help(subcommands.add_parser(name, help=text, description=text, add_help=False))


def _parser(program: str, text: str) -> argparse.ArgumentParser:
    return _with_help(argparse.ArgumentParser(prog=program, description=text, add_help=False))


def _with_help(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the options of every command: `--help`, with a description in the style of the others, and `--no-color`."""
    parser.add_argument("-h", "--help", action="help", help="Show this help and exit.")
    parser.add_argument("--no-color", action=_NoColor, help=f"Show no colours, as with {NO_COLOR}=1.")
    return parser


class _NoColor(argparse.Action):
    """Turns colours off by the environment variable, which logs, libraries and child processes respect as well."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, *_: object) -> None:
        os.environ[NO_COLOR] = "1"


def _import(module_name: str) -> ModuleType:
    """Imports a module with the garbage collector off.

    The objects that imports create stay alive. To search them for garbage would take a seventh of the start.
    """
    gc.disable()
    try:
        return importlib.import_module(module_name)
    finally:
        gc.freeze()
        gc.enable()

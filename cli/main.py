"""The `tailrace` command: one module per subcommand, each with `configure(parser)` and `run(arguments) -> exit status`,
or per group of them, with such a pair for each in `COMMANDS`.

Modules are imported only for the subcommand that is called: `tailrace up` must not pay for the rest.
"""

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from tailrace import __version__

_PROGRAM = "tailrace"
_COMMANDS = {
    "up": ("tailrace.cli.serving.up", "run a whole local cluster"),
    "serve sc": ("tailrace.cli.serving.serve_sc", "run the Streaming Controller of a cluster"),
    "serve spu": ("tailrace.cli.serving.serve_spu", "run an SPU of a cluster"),
    "spu register": ("tailrace.cli.objects.spu_commands", "let an SPU join the cluster"),
    "spu list": ("tailrace.cli.objects.spu_commands", "show the SPUs, and which of them are online"),
    "spu describe": ("tailrace.cli.objects.spu_commands", "show all about some SPUs"),
    "spu unregister": ("tailrace.cli.objects.spu_commands", "let an SPU join the cluster no more"),
    "spu-group create": ("tailrace.cli.objects.spu_group_commands", "have a group of SPUs started"),
    "spu-group list": ("tailrace.cli.objects.spu_group_commands", "show the groups of SPUs"),
    "spu-group describe": ("tailrace.cli.objects.spu_group_commands", "show all about some groups"),
    "spu-group scale": ("tailrace.cli.objects.spu_group_commands", "start more SPUs of a group, or stop some"),
    "spu-group delete": ("tailrace.cli.objects.spu_group_commands", "stop all SPUs of a group"),
    "topic create": ("tailrace.cli.objects.topic_commands", "create a topic; it may wait for SPUs"),
    "topic list": ("tailrace.cli.objects.topic_commands", "show the topics, or those that were deleted"),
    "topic describe": ("tailrace.cli.objects.topic_commands", "show all about some topics"),
    "topic delete": ("tailrace.cli.objects.topic_commands", "delete a topic; it can be brought back for a while"),
    "topic undelete": ("tailrace.cli.objects.topic_commands", "bring a deleted topic back, with its data"),
    "topic alter": ("tailrace.cli.objects.topic_commands", "set configs of a topic, or add partitions"),
    "partition list": (
        "tailrace.cli.objects.partition_commands",
        "show who leads and who follows, and how far they are",
    ),
    "partition describe": ("tailrace.cli.objects.partition_commands", "show each replica of a topic's partitions"),
    "partition states": (
        "tailrace.cli.objects.partition_states_command",
        "print how the status of a partition changes, as a diagram",
    ),
    "replica list": ("tailrace.cli.objects.replica_commands", "show what each SPU holds, as it says itself"),
    "segment list": (
        "tailrace.cli.objects.segment_commands",
        "show the segments of a topic's partitions, and who holds copies",
    ),
    "produce": ("tailrace.cli.records.produce_command", "send the lines of standard input to a topic"),
    "consume": ("tailrace.cli.records.consume_command", "print the records of a topic"),
    "group list": ("tailrace.cli.groups.group_commands", "show the consumer groups"),
    "group describe": ("tailrace.cli.groups.group_commands", "show how far some groups have come, and who is in them"),
    "group explain": ("tailrace.cli.groups.group_commands", "say why a group does what it does, and what would help"),
    "group reset-offsets": ("tailrace.cli.groups.group_commands", "let a group go on reading elsewhere"),
    "group delete": (
        "tailrace.cli.groups.group_commands",
        "forget some groups, or what they have committed to a topic",
    ),
    "controller list": ("tailrace.cli.objects.controller_commands", "show the Streaming Controller's own controllers"),
    "connection list": (
        "tailrace.cli.objects.connection_commands",
        "show the streams between SPUs and the Streaming Controller",
    ),
    "draw cluster": ("tailrace.cli.pictures.draw_commands", "draw the SC, the SPUs, and who copies from whom"),
    "draw partition": (
        "tailrace.cli.pictures.draw_commands",
        "draw who writes, leads, follows and reads, and where the segments lie",
    ),
    "apply": ("tailrace.cli.objects.apply_command", "make SPUs, groups and topics what files say"),
    "log dump": ("tailrace.cli.files.log_dump", "print the batches of a log file, or the entries of an index"),
    "log verify": ("tailrace.cli.files.log_verify", "check every byte of the logs below a directory"),
}
_ALIASES = {
    f"show {name}s": f"{name} list"
    for name in ("spu", "spu-group", "topic", "partition", "replica", "segment", "group", "controller", "connection")
}
_GROUPS = {
    "serve": "run one server of a cluster",
    "spu": "the SPUs of the cluster",
    "spu-group": "groups of SPUs that the cluster starts and stops itself",
    "topic": "topics",
    "partition": "partitions and their replicas",
    "replica": "the copies of partitions that SPUs hold",
    "segment": "the segments of partitions",
    "group": "consumer groups",
    "controller": "the Streaming Controller's own controllers",
    "connection": "the streams between SPUs and the Streaming Controller",
    "draw": "the cluster, or a partition, as a picture",
    "show": "the same as the list of each of these",
    "log": "look into log files, offline",
}


def main(argv: Sequence[str] | None = None) -> int:
    _replace_missing_streams()
    try:
        try:
            arguments = parse(sys.argv[1:] if argv is None else argv)
            status: int = arguments.run(arguments)
        finally:
            # Python does it at its exit as well, and has its own words for what it cannot write.
            sys.stdout.flush()
    except KeyboardInterrupt:
        # As a shell reports a command that SIGINT ended.
        return 130
    except OSError as error:
        return _end_of_output(error)
    return status


def _replace_missing_streams() -> None:
    """Whoever starts a process may have closed some of its standard streams. Then the next file that is opened, be it a
    log, would have the number of one, and be written to by whoever writes to that."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Never closed; it has the smallest number that is free: just that one.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _end_of_output(error: OSError) -> int:
    """The exit status when it takes no more; raises the error again if that was something else."""
    if not isinstance(error, BrokenPipeError):
        try:
            # Where Python was told to keep nothing back, there is nothing left that it would be refused again.
            print(flush=True)
        except OSError:
            print(f"{_PROGRAM}: standard output: {error.strerror}", file=sys.stderr)
        else:
            raise error
    # What could not be written is forgotten, so that Python does not try once more.
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    # Whoever has closed a pipe has seen enough.
    return 0 if isinstance(error, BrokenPipeError) else 1


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command, with its `run`. Exits with the usage when they are none."""
    command = next((each for each in (*_COMMANDS, *_ALIASES) if _begins_with(words, each)), None)
    if command is None:
        _explain(words)
    return _parse_command(command, words[len(command.split()) :])


def _begins_with(words: Sequence[str], command: str) -> bool:
    return list(words[: len(command.split())]) == command.split()


def _parse_command(command: str, words: Sequence[str]) -> argparse.Namespace:
    """Makes the parser of this command alone: those of all would take a noticeable part of a start."""
    meant = _ALIASES.get(command, command)
    module_name, text = _COMMANDS[meant]
    module = _import(module_name)
    runnable = getattr(module, "COMMANDS", {}).get(meant.rpartition(" ")[2], module)
    parser = argparse.ArgumentParser(prog=f"{_PROGRAM} {command}", description=text)
    runnable.configure(parser)
    parser.set_defaults(run=runnable.run)
    return parser.parse_args(words)


def _explain(words: Sequence[str]) -> NoReturn:
    """These begin with no command: somebody wants help, or has mistyped."""
    parser = _parser_of_all()
    parser.parse_args(words)
    parser.error("name a command first")


def _parser_of_all() -> argparse.ArgumentParser:
    """Knows which commands there are, and nothing of what they take."""
    parser = argparse.ArgumentParser(prog=_PROGRAM, description="A Kafka-protocol broker cluster, without a JVM.")
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True)
    groups = {
        group: subcommands.add_parser(group, help=text).add_subparsers(metavar="COMMAND", required=True)
        for group, text in _GROUPS.items()
    }
    for command in (*_COMMANDS, *_ALIASES):
        _, text = _COMMANDS[_ALIASES.get(command, command)]
        group, _, name = command.rpartition(" ")
        (groups[group] if group else subcommands).add_parser(name, help=text)
    return parser


def _import(module_name: str) -> ModuleType:
    """What imports make lives on. To look for garbage among it again and again would take a seventh of a start."""
    gc.disable()
    try:
        return importlib.import_module(module_name)
    finally:
        gc.freeze()
        gc.enable()

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
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NoReturn

from tailrace import __version__
from tailrace.cluster.similar_names import similar

from .command_parser import CommandParser

_PROGRAM = "tailrace"
WRONG_SYSTEM = (
    "this system is not Linux, and Tailrace needs Linux's epoll. Run it in a Linux container or virtual machine; "
    "Kafka clients on this system can use it there."
)
_COMMANDS = {
    "up": ("serving.up", "Run a whole local cluster."),
    "status": ("health.status_command", "Show what runs, what is wrong, and what to do."),
    "doctor": ("health.doctor_command", "Check addresses, clocks, disks, limits, versions and the loss window."),
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
    "topic alter": ("objects.topic_commands", "Change configs and replication factors, or add partitions."),
    "topic offsets": ("administration.offset_commands", "Show where the logs of topics begin and end."),
    "topic truncate": ("administration.offset_commands", "Delete the records before an offset or a time."),
    "config list": ("administration.config_commands", "List the configs that topics, brokers or groups have set."),
    "config describe": ("administration.config_commands", "Show configs with their values, sources and meaning."),
    "config set": ("administration.config_commands", "Set configs of a topic, a broker or a group."),
    "config reset": ("administration.config_commands", "Reset configs to their defaults."),
    "partition list": ("objects.partition_commands", "List partitions with their leaders, replicas and lags."),
    "partition describe": ("objects.partition_commands", "Show the replicas, shelves and epochs of partitions."),
    "partition states": (
        "objects.partition_commands",
        "Print the transitions between the statuses of a partition as a diagram.",
    ),
    "partition move": ("administration.placement_commands", "Move the replicas of partitions to other SPUs."),
    "partition moves": ("administration.placement_commands", "List the partitions whose replicas are being moved."),
    "partition elect": ("administration.placement_commands", "Elect the preferred leaders of partitions."),
    "replica list": ("objects.replica_commands", "List the replicas that each SPU reports."),
    "segment list": ("objects.segment_commands", "List the segments of a topic and the SPUs that hold copies."),
    "produce": ("records.producing.produce_command", "Send lines, JSON or test data to a topic."),
    "consume": ("records.consuming.consume_command", "Print the records of topics, alone or in a consumer group."),
    "group list": ("groups.group_commands", "List the consumer groups."),
    "group describe": ("groups.group_commands", "Show the members, offsets and lags of groups."),
    "group explain": ("groups.group_commands", "Explain why a group rebalances, and what would help."),
    "group reset-offsets": ("groups.group_commands", "Change the committed offsets of a group."),
    "group delete": ("groups.group_commands", "Delete groups, or the offsets that they committed to a topic."),
    "user create": ("security.user_commands", "Create a user with a password, for SCRAM and PLAIN."),
    "user list": ("security.user_commands", "List the users and the mechanisms that they log in with."),
    "user password": ("security.user_commands", "Change the password of a user."),
    "user delete": ("security.user_commands", "Delete users, or their credentials for one mechanism."),
    "token create": ("security.token_commands", "Create a password for a limited time: a delegation token."),
    "token list": ("security.token_commands", "List the delegation tokens that you may see."),
    "token renew": ("security.token_commands", "Let a delegation token expire later."),
    "token expire": ("security.token_commands", "Let a delegation token expire, at once or soon."),
    "certificate make": ("security.certificate_commands", "Make an authority, and a certificate that it signs."),
    "certificate show": ("security.certificate_commands", "Show the names and the validity of certificates."),
    "certificate renew": ("security.certificate_commands", "Replace certificates by ones that are valid for longer."),
    "transaction list": ("transactions.transaction_commands", "List the transactional ids with their states."),
    "transaction describe": (
        "transactions.transaction_commands",
        "Show the producer, client and partitions of a transaction, and what happens next.",
    ),
    "transaction explain": (
        "transactions.transaction_commands",
        "Explain who holds back readers of committed records, and until when.",
    ),
    "transaction abort": (
        "transactions.transaction_commands",
        "Abort a transaction that hangs, or fence its producer.",
    ),
    "acl create": ("security.acl_commands", "Allow or deny users to do something with topics, groups and so on."),
    "acl list": ("security.acl_commands", "List the access rules, or those about a resource."),
    "acl delete": ("security.acl_commands", "Delete access rules."),
    "acl test": ("security.acl_commands", "Tell whether a user may do something, and why."),
    "quota set": ("security.quota_commands", "Limit the traffic, time or changes of users, client ids or addresses."),
    "quota list": ("security.quota_commands", "List the quotas."),
    "quota delete": ("security.quota_commands", "Delete quotas."),
    "trigger invoke": ("triggers.invoke_command", "Call a function with an event, without a cluster."),
    "trigger run": ("triggers.run_command", "Run one replica of a trigger in the foreground."),
    "trigger backfill": ("triggers.backfill_command", "Run the function of a trigger over an archive, on Spark."),
    "trigger deploy": ("triggers.deploy_command", "Store a function in the cluster, which keeps its replicas running."),
    "trigger list": ("triggers.trigger_commands", "List the deployed triggers."),
    "trigger describe": ("triggers.trigger_commands", "Show triggers with their replicas and shards."),
    "trigger explain": ("triggers.trigger_commands", "Explain what a trigger does, or why a shard makes no progress."),
    "trigger scale": ("triggers.trigger_commands", "Change the number of replicas, or let it follow the lag."),
    "trigger redeploy": ("triggers.trigger_commands", "Replace the replicas of a trigger one by one."),
    "trigger pause": ("triggers.trigger_commands", "Stop the replicas of a trigger until it is resumed."),
    "trigger resume": ("triggers.trigger_commands", "Start the replicas of a paused trigger again."),
    "trigger export": ("triggers.export_command", "Print a trigger as a file from which it can be deployed."),
    "trigger logs": ("triggers.logs_command", "Print what the replicas of a trigger have printed."),
    "trigger delete": ("triggers.trigger_commands", "Stop the replicas of a trigger and delete it."),
    "trigger state": ("triggers.state_command", "Show which replica of a trigger handles which shards."),
    "trigger dead-letters list": ("triggers.dead_letter_commands", "List the records that a trigger gave up, and why."),
    "trigger dead-letters show": ("triggers.dead_letter_commands", "Show one dead letter with its traceback."),
    "trigger dead-letters replay": ("triggers.dead_letter_commands", "Send the original records to their topic again."),
    "pipeline audit": ("pipeline.audit_command", "Compare all replicas of all partitions, from the files of SPUs."),
    "pipeline lag": ("pipeline.lag_command", "Show the lag of streaming queries of Spark, and commit it to a group."),
    "pipeline archive compact": (
        "pipeline.archive_compact_command",
        "Merge small chunks of an archive into files of a good size.",
    ),
    "pipeline archive clean": (
        "pipeline.archive_clean_command",
        "Remove old files of an archive that do not count.",
    ),
    "pipeline archive show": ("pipeline.archive_show_command", "Show what an archive has, by partition."),
    "pipeline archive run": ("pipeline.archive_run_command", "Copy topics to Parquet files, each record exactly once."),
    "pipeline archive verify": (
        "pipeline.archive_verify_command",
        "Prove that an archive has every committed record exactly once.",
    ),
    "pipeline replay": ("pipeline.replay_command", "Send an archive or segments to a topic again, with Spark."),
    "pipeline verify-replay": (
        "pipeline.verify_replay_command",
        "Prove that the target of a replay has each record once.",
    ),
    "pipeline target-offset": (
        "pipeline.target_offset_command",
        "Show which offsets records got in a replay.",
    ),
    "pipeline archive table": (
        "pipeline.archive_table_command",
        "Make a Delta or Iceberg table equal to an archive.",
    ),
    "pipeline stats": ("pipeline.stats_command", "Show key skew, sizes, hot partitions and duplicates, with Spark."),
    "controller list": ("objects.controller_commands", "List the controllers of the Streaming Controller."),
    "connection list": (
        "objects.connection_commands",
        "List the connections between SPUs and the Streaming Controller.",
    ),
    "draw cluster": ("pictures.draw_commands", "Draw the SC, the SPUs, and which SPU copies from which."),
    "draw partition": ("pictures.draw_commands", "Draw the leader, followers, readers and segments of a partition."),
    "apply": (
        "objects.apply_command",
        "Create or change SPUs, SPU groups, topics and triggers as files describe them.",
    ),
    "log dump": ("files.log_dump", "Print the batches of a log file, or the entries of an index or other file."),
    "audit show": ("security.audit_show", "Show who did what to what, and what was denied."),
    "audit verify": ("security.audit_verify", "Check that an audit log is as the server wrote it."),
    "log verify": ("files.log_verify", "Check every byte of the logs in a directory."),
    "config check": ("serving.config_check", "Check a settings file and the environment, and start nothing."),
    "completion": ("shell_completion", "Print a script with which a shell completes commands and options."),
}
"""The module of each command, relative to `tailrace.cli`, and its description."""
_ALIASES = {
    f"show {name}s": f"{name} list"
    for name in (
        "spu",
        "spu-group",
        "topic",
        "partition",
        "replica",
        "segment",
        "group",
        "transaction",
        "acl",
        "quota",
        "controller",
        "connection",
        "user",
        "token",
    )
}
_GROUPS = {
    "serve": "Run one server of a cluster.",
    "spu": "Manage SPUs.",
    "spu-group": "Manage groups of SPUs that the cluster starts and stops.",
    "topic": "Manage topics.",
    "config": "Show and change the configs of topics, brokers and groups; check the settings of servers.",
    "partition": "Inspect partitions, move their replicas and elect their leaders.",
    "replica": "Inspect the replicas that SPUs hold.",
    "segment": "Inspect the segments of partitions.",
    "group": "Manage consumer groups.",
    "user": "Manage the users that may log in.",
    "token": "Manage delegation tokens, which are passwords for a limited time.",
    "transaction": "Inspect transactions, and end those that hang.",
    "acl": "Say who may do what.",
    "quota": "Limit how much clients may use.",
    "trigger": "Run functions for every record of a stream.",
    "trigger dead-letters": "List, show and replay the records that a trigger gave up.",
    "pipeline": "Show what jobs on Spark do with streams.",
    "pipeline archive": "Copy topics to Parquet files exactly once, and prove it.",
    "controller": "Inspect the controllers of the Streaming Controller.",
    "connection": "Inspect the connections between SPUs and the Streaming Controller.",
    "draw": "Draw the cluster or a partition.",
    "show": "List objects; short for the list commands.",
    "log": "Inspect log files offline.",
    "certificate": "Make and renew certificates for servers and clients without an authority.",
    "audit": "Read and verify the audit logs of servers.",
}
_SECTIONS = {
    "start here": ("up", "topic", "produce", "consume"),
    "more about data": ("trigger", "pipeline", "group", "transaction", "config", "partition", "segment", "log"),
    "the cluster": (
        "status",
        "doctor",
        "acl",
        "quota",
        "spu",
        "spu-group",
        "user",
        "token",
        "certificate",
        "serve",
        "apply",
        "replica",
        "controller",
        "connection",
        "draw",
        "show",
    ),
}
"""The top-level commands by section of the help; those that are in none come last."""
_OTHER_WORDS = {
    "start": "up",
    "run": "up",
    "broker": "spu",
    "brokers": "spu list",
    "consumer-group": "group",
    "consumer-groups": "group list",
    "transactions": "transaction list",
    "quotas": "quota list",
    "acls": "acl list",
}
"""What people who know other programs type, and our command for it."""
_EXTRA = ("numpy", "pyarrow", "pyspark")
"""The packages of the extra `spark`, which only the jobs of `tailrace pipeline` import."""


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
    except ModuleNotFoundError as error:
        return _without_extra(error)
    except OSError as error:
        return _end_of_output(error)
    return status


def _without_extra(error: ModuleNotFoundError) -> int:
    """Says which extra a command needs, and returns the exit status; raises the error again if it has another cause."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRA:
        raise error
    print(f"tailrace: {package} is not installed. Install it with `pip install 'tailrace[spark]'`", file=sys.stderr)
    return 1


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
    """Parses the arguments of one command and adds its `run`.

    Prints a help that was asked for, or says what is wrong, and exits.
    """
    if _begins_with(words, "--no-color") and words[1:]:
        return parse([*words[1:], "--no-color"])
    if _begins_with(words, "help"):
        return parse([*words[1:], "--help"])
    command = next((each for each in (*_COMMANDS, *_ALIASES) if _begins_with(words, each)), None)
    if command is None:
        _explain(words)
    parser = _command_parser(command)
    return parser.parse_all(words[len(command.split()) :])


def _begins_with(words: Sequence[str], command: str) -> bool:
    return list(words[: len(command.split())]) == command.split()


def _command_parser(command: str) -> CommandParser:
    """Makes the parser of this command alone; to create those of all commands would take noticeable time."""
    if not hasattr(select, "epoll"):
        print(f"{_PROGRAM}: {WRONG_SYSTEM}", file=sys.stderr)
        sys.exit(1)
    meant = _ALIASES.get(command, command)
    module_name, text = _COMMANDS[meant]
    module = _import(f"tailrace.cli.{module_name}")
    runnable = getattr(module, "COMMANDS", {}).get(meant.rpartition(" ")[2], module)
    parser = CommandParser(f"{_PROGRAM} {command}", text, meant)
    runnable.configure(parser)
    parser.add_last()
    parser.set_defaults(run=runnable.run)
    return parser


# help and wrong usage


def _explain(words: Sequence[str]) -> NoReturn:
    """Prints the help that was asked for, or says that there is no such command, and exits."""
    group = next((each for each in (" ".join(words[:2]), *words[:1]) if each in _GROUPS), None)
    words = words if group is None else words[len(group.split()) :]
    help_text = _overview() if group is None else _group_help(group)
    if words and words[0] in ("-h", "--help"):
        print(help_text)
        raise SystemExit(0)
    if not words:
        # A group alone is only a part of a command, and a script should notice that it lacks the rest.
        print(help_text, file=sys.stdout if group is None else sys.stderr)
        raise SystemExit(0 if group is None else 2)
    parser = CommandParser(_PROGRAM if group is None else f"{_PROGRAM} {group}", "")
    parser.usage = f"{parser.prog} COMMAND [OPTIONS]"
    if group is None:
        parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
        if words[0] == "--version":
            parser.parse_args(words)
    if words[0].startswith("-"):
        parser.error("the first argument must be a command")
    parser.error(_no_such_command(words if group is None else [*group.split(), *words], parser.prog))


def _no_such_command(words: Sequence[str], program: str) -> str:
    """Says that there is no such command, and which command was perhaps meant."""
    count = len(program.split()) if words[0] in _GROUPS else 1
    typed = [each for each in words if not each.startswith("-")][:count]
    text = f"there is no command {' '.join(typed)!r}"
    guess = _guess([each for each in words[:3] if not each.startswith("-")])
    text += f"; did you mean `{_PROGRAM} {guess}`?" if guess is not None else "."
    return f"{text} `{program} --help` lists the commands"


def _guess(words: Sequence[str]) -> str | None:
    """Returns the command that is most similar to what was typed. People also type `list topics`."""
    if not words:
        return None
    names = [*_COMMANDS, *_GROUPS]
    if words[0] in _OTHER_WORDS:
        return _OTHER_WORDS[words[0]]
    # Two words are rarely similar to one, so these are two questions.
    pairs = [name for name in names if " " in name]
    if len(words) > 1:
        if words[0] in _GROUPS:
            of_group = {
                name.partition(" ")[2]: name for name in (*pairs, *_ALIASES) if _begins_with(name.split(), words[0])
            }
            found = similar(" ".join(words[1:]), of_group) or similar(words[1], of_group)
            return None if found is None else of_group[found]
        for order in (words[:2], [*reversed(words[:2])]):
            if (found := similar(" ".join(order), pairs)) is not None:
                return found
    return similar(words[0], [name for name in names if " " not in name])


def _overview() -> str:
    """Returns the help of the whole program."""
    every = {command: _text(command) for command in _COMMANDS} | _GROUPS
    top = {name: text for name, text in every.items() if " " not in name}
    listed = [name for names in _SECTIONS.values() for name in names]
    sections = {**_SECTIONS, "other commands": tuple(name for name in top if name not in listed)}
    about = [
        "Run and manage a Kafka-protocol broker cluster. It has two kinds of servers:",
        "  An SPU (Streaming Processing Unit) is a broker: it stores records and serves clients.",
        "  The SC (Streaming Controller) decides which topics, SPUs and leaders there are.",
    ]
    options = {"-h, --help": "Show this help and exit.", "--version": "Show the version and exit."}
    listings = {section: {name: top[name] for name in names} for section, names in sections.items()}
    return _help(_PROGRAM, about, {**listings, "options": options})


def _group_help(group: str) -> str:
    """Returns the help of a group of commands."""
    commands = {
        command.rpartition(" ")[2]: _text(command)
        for command in (*_COMMANDS, *_ALIASES)
        if command.rpartition(" ")[0] == group
    }
    commands |= {each.rpartition(" ")[2]: text for each, text in _GROUPS.items() if each.rpartition(" ")[0] == group}
    return _help(f"{_PROGRAM} {group}", [_GROUPS[group]], {"commands": commands})


def _help(program: str, about: Sequence[str], listings: Mapping[str, Mapping[str, str]]) -> str:
    width = max(len(name) for listing in listings.values() for name in listing) + 2
    lines = [f"usage: {program} COMMAND [OPTIONS]", "", *about]
    for title, listing in listings.items():
        lines += ["", f"{title}:", *(f"  {name:{width}}{text}" for name, text in listing.items())]
    return "\n".join([*lines, "", f"`{program} COMMAND --help` shows the options of a command, and examples."])


def _text(command: str) -> str:
    """Returns the sentence that says what a command does."""
    return _COMMANDS[_ALIASES.get(command, command)][1]


def whole_parser() -> argparse.ArgumentParser:
    """Makes a parser of all commands with their arguments, from which completions are made."""
    parser = argparse.ArgumentParser(_PROGRAM, description="Run and manage a Kafka-protocol broker cluster.")
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}", help="Show the version.")
    commands = parser.add_subparsers(metavar="COMMAND")
    groups = {"": commands}
    for group, text in _GROUPS.items():
        above, _, name = group.rpartition(" ")
        groups[group] = groups[above].add_parser(name, help=text).add_subparsers(metavar="COMMAND")
    for command in (*_COMMANDS, *_ALIASES):
        group, _, name = command.rpartition(" ")
        groups[group].add_parser(name, help=_text(command), parents=[_command_parser(command)], add_help=False)
    return parser


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

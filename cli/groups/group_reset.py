"""`tailrace group reset-offsets`: changes the committed offsets of a group, or shows what would change.

The offsets of a group with members are not changed, because the members would overwrite them with their next commit.
"""

import argparse
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cli.options.sc_options import UsageError, offset, show_documents, text_of_file
from tailrace.cli.options.spu_options import named_topic
from tailrace.cli.output.printing import plain
from tailrace.cli.output.times import duration, moment
from tailrace.client.group_client import GroupClient
from tailrace.client.group_facts import Group, Progress
from tailrace.client.group_responses import is_not_found
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, answered, unless_refused
from tailrace.runtime.wall_clock import WallClock

from .group_options import GroupAsk, members_text, raise_the_first
from .group_reset_plan import (
    Move,
    Wish,
    offsets_of_file,
    planned,
    shift_by,
    to_current,
    to_earliest,
    to_found,
    to_latest,
    to_offset,
)
from .group_tables import move_table, reset_document

_FIRST_MS = 0
"""The earliest timestamp to ask for; negative ones have a special meaning in ListOffsets."""


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("group", metavar="GROUP", type=_group, help="Group whose offsets to change.")
    parser.add_argument(
        "--topic",
        metavar="TOPIC[:P,P]",
        action="append",
        default=[],
        help="Topic, or some of its partitions; may be repeated.",
    )
    parser.add_argument("--all-topics", action="store_true", help="All topics to which the group has committed.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="To the first record that exists.")
    where.add_argument("--to-latest", action="store_true", help="To the end of the log.")
    where.add_argument("--to-current", action="store_true", help="To the committed offset, if it is within the log.")
    where.add_argument("--to-offset", metavar="N", type=offset, help="To offset N.")
    where.add_argument(
        "--shift-by", metavar="N", type=_whole_number, help="To the committed offset plus N, which may be negative."
    )
    where.add_argument(
        "--to-datetime",
        metavar="TIME",
        type=moment,
        help="To the first record since TIME, such as 2026-01-31T12:00:00Z.",
    )
    where.add_argument(
        "--by-duration",
        metavar="DURATION",
        type=duration,
        help="To the first record of the last DURATION, such as 90m, 2d or PT1H30M.",
    )
    where.add_argument(
        "--from-file",
        metavar="FILE",
        help="To the offsets in a file: JSON or YAML of `group describe`, or lines of topic,partition,offset.",
    )
    parser.add_argument(
        "--execute", action="store_true", help="Change the offsets; otherwise only show what would change."
    )


def resetting(wall_clock: WallClock) -> GroupAsk:
    """Makes the function that resets offsets, or shows what it would do."""

    async def reset(client: GroupClient, arguments: argparse.Namespace) -> None:
        wanted = _read(arguments, wall_clock.now_ms())
        group_id: str = arguments.group
        group = await _described(client, group_id)
        committed = unless_refused((await client.committed([group_id]))[group_id])
        moves = await _moves(client, wanted, await _chosen(client, wanted, committed), committed)
        in_the_way = _in_the_way(group)
        if arguments.execute:
            if in_the_way:
                raise RefusedError(in_the_way)
            changed = await client.commit(group_id, {each.partition: each.after for each in moves})
            raise_the_first(f"the offsets of {group_id} were not reset", changed)
        notes = (
            [f"Group {group_id} does not exist yet; it will be created with these offsets."] if group is None else []
        )
        done = f"The offsets of {group_id} were reset."
        notes.append(done if arguments.execute else f"Nothing was changed: {in_the_way or 'add --execute to do it'}.")
        show_documents(
            arguments,
            reset_document(group_id, moves, executed=arguments.execute),
            lambda: "\n".join([move_table(moves), *map(plain, notes)]),
        )

    return reset


class _Wanted(Struct, frozen=True):
    """The request on the command line."""

    topics: Sequence[tuple[str, list[int] | None]]
    all_topics: bool
    wish: Wish | None
    """Gives the new offset of a partition; None if the leaders must be asked for the offset at `timestamp_ms`."""
    timestamp_ms: int = 0
    offsets: Mapping[Partition, int] | None = None
    """The offsets in a file; None if there is no file."""


def _read(arguments: argparse.Namespace, now_ms: int) -> _Wanted:
    topics = [named_topic(each, "--topic ") for each in arguments.topic]
    all_topics: bool = arguments.all_topics
    if arguments.from_file is not None:
        offsets = offsets_of_file(text_of_file(arguments.from_file), arguments.from_file)
        return _Wanted(topics, all_topics, to_found(offsets), offsets=offsets)
    if not topics and not all_topics:
        raise UsageError("give --topic, --all-topics or --from-file")
    if arguments.to_datetime is not None:
        return _Wanted(topics, all_topics, None, max(arguments.to_datetime, _FIRST_MS))
    if arguments.by_duration is not None:
        return _Wanted(topics, all_topics, None, max(now_ms - arguments.by_duration, _FIRST_MS))
    if arguments.to_offset is not None:
        return _Wanted(topics, all_topics, to_offset(arguments.to_offset))
    if arguments.shift_by is not None:
        return _Wanted(topics, all_topics, shift_by(arguments.shift_by))
    if arguments.to_earliest:
        return _Wanted(topics, all_topics, to_earliest)
    return _Wanted(topics, all_topics, to_latest if arguments.to_latest else to_current)


async def _described(client: GroupClient, group_id: str) -> Group | None:
    """Describes the group; returns None if it does not exist, and will be created by the commit."""
    answer = (await client.describe([group_id]))[group_id]
    return None if is_not_found(answer) else unless_refused(answer)


def _in_the_way(group: Group | None) -> str:
    if group is None or not group.members:
        return ""
    return f"group {group.id} has members that would overwrite the offsets: stop {members_text(group.members)} first"


async def _chosen(client: GroupClient, wanted: _Wanted, committed: Sequence[Progress]) -> list[Partition]:
    """Returns the partitions to reset. If there are both a file and topics, they must be in both."""
    named: set[Partition] = {each.partition for each in committed} if wanted.all_topics else set()
    there = await client.logs.partitions([topic for topic, _ in wanted.topics])
    for topic, numbers in wanted.topics:
        of_topic = unless_refused(there[topic])
        named.update(of_topic if numbers is None else (Partition(topic, each) for each in numbers))
    chosen = named
    if wanted.offsets is not None:
        chosen = wanted.offsets.keys() & named if wanted.topics or wanted.all_topics else set(wanted.offsets)
    if not chosen:
        raise RefusedError("there is nothing to reset: the group has committed no offsets there")
    return sorted(chosen)


async def _moves(
    client: GroupClient, wanted: _Wanted, partitions: Sequence[Partition], committed: Sequence[Progress]
) -> list[Move]:
    logs = answered(await client.logs.ends(partitions))
    wish = wanted.wish
    if wish is None:
        wish = to_found(answered(await client.logs.offsets_at(partitions, wanted.timestamp_ms)))
    progress = {each.partition: each for each in committed}
    return [planned(replace(progress.get(each, Progress(each)), log=logs[each]), wish) for each in partitions]


# types of options


def _group(text: str) -> str:
    """Refuses an empty name, which is more likely an unset variable of a script than a group without a name."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return text


def _whole_number(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)

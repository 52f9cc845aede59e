"""`tailrace group …`: lists, describes, explains, resets and deletes consumer groups.

The commands ask the SPUs that coordinate the groups. All but `explain` speak only Kafka's protocol, so with
--bootstrap they work with Apache Kafka as well.
"""

import argparse
from collections.abc import Sequence

from msgspec.structs import replace

from tailrace.cli.options.sc_options import Command, show_documents
from tailrace.cli.options.spu_options import named_topic
from tailrace.client.group_client import GroupClient
from tailrace.client.group_facts import Group
from tailrace.client.group_responses import CLASSIC, CONSUMER, STATES, is_not_found, no_such_group
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, reason_of, unless_refused
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.wall_clock import SystemClock, WallClock

from . import group_explain, group_reset
from .group_options import GroupAsk, group_command, members_text, raise_the_first
from .group_tables import description, group_document, group_table, listed_document

# list


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        metavar="STATE",
        type=_state,
        action="append",
        default=[],
        help="List only groups in this state, such as Stable; may be repeated.",
    )
    parser.add_argument(
        "--type",
        choices=(CLASSIC, CONSUMER),
        action="append",
        default=[],
        help="List only groups of this type; may be repeated.",
    )


def _state(text: str) -> str:
    found = next((each for each in STATES if each.lower() == text.lower()), None)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is not one of {', '.join(STATES)}")
    return found


async def _list(client: GroupClient, arguments: argparse.Namespace) -> None:
    listed = await client.listed(arguments.state, arguments.type)
    described = await client.describe([each.id for each in listed if each.type in (CLASSIC, CONSUMER, "")])
    groups = []
    for each in listed:
        group = described.get(each.id)
        groups.append(replace(each, member_count=len(group.members)) if isinstance(group, Group) else each)
    show_documents(arguments, [listed_document(each) for each in groups], lambda: group_table(groups))


# describe


def _describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="Groups to describe.")
    parser.add_argument(
        "--members", action="store_true", help="Show the subscriptions and partitions of each member, too."
    )


def _describing(wall_clock: WallClock) -> GroupAsk:
    async def describe(client: GroupClient, arguments: argparse.Namespace) -> None:
        answers = (await client.describe(arguments.groups)).values()
        groups = [each for each in answers if isinstance(each, Group)]
        if groups or arguments.output != "table":
            progress = await client.progress(groups)
            now_ms = wall_clock.now_ms()
            show_documents(
                arguments,
                [group_document(each, progress[each.id], now_ms) for each in groups],
                lambda: "\n\n".join(
                    description(each, progress[each.id], now_ms, with_members=arguments.members) for each in groups
                ),
            )
        if faults := [str(each) for each in answers if isinstance(each, RefusedError)]:
            raise RefusedError("; ".join(faults))

    return describe


# delete


def _delete_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="Groups to delete.")
    parser.add_argument(
        "--topic",
        metavar="TOPIC[:P,P]",
        action="append",
        default=[],
        help="Delete only the offsets committed to this topic, or to some of its partitions; may be repeated.",
    )


async def _delete(client: GroupClient, arguments: argparse.Namespace) -> None:
    if arguments.topic:
        await _delete_offsets(client, arguments)
        return
    answers = await client.delete(arguments.groups)
    deleted = [each for each, refused in answers.items() if refused is None]
    if deleted or arguments.output != "table":
        show_documents(
            arguments,
            [{"group": each} for each in deleted],
            lambda: "\n".join(f"deleted group {each}" for each in deleted),
        )
    faults = [await _why_not(client, each, refused) for each, refused in answers.items() if refused is not None]
    if faults:
        raise RefusedError("; ".join(faults))


async def _why_not(client: GroupClient, group_id: str, refused: RefusedError) -> str:
    if refused.code == ErrorCode.NON_EMPTY_GROUP:
        group = (await client.describe([group_id]))[group_id]
        if isinstance(group, Group):
            return f"group {group_id} has members: stop {members_text(group.members)} first"
    return str(no_such_group(group_id)) if is_not_found(refused) else f"{group_id}: {reason_of(refused)}"


async def _delete_offsets(client: GroupClient, arguments: argparse.Namespace) -> None:
    topics = [named_topic(each, "--topic ") for each in arguments.topic]
    documents = []
    for group_id in arguments.groups:
        committed = unless_refused((await client.committed([group_id]))[group_id])
        wanted = [each.partition for each in committed if _is_among(each.partition, topics)]
        if not wanted:
            raise RefusedError(f"group {group_id} has not committed any offsets there")
        raise_the_first(f"the offsets of {group_id} were not deleted", await client.delete_offsets(group_id, wanted))
        documents += [{"group": group_id, "topic": each.topic, "partition": each.number} for each in wanted]
    show_documents(
        arguments,
        documents,
        lambda: "\n".join(
            f"{each['group']}: deleted the offset of {each['topic']}/{each['partition']}" for each in documents
        ),
    )


def _is_among(partition: Partition, topics: Sequence[tuple[str, list[int] | None]]) -> bool:
    return any(
        partition.topic == topic and (numbers is None or partition.number in numbers) for topic, numbers in topics
    )


def commands(wall_clock: WallClock) -> dict[str, Command]:
    """Makes the commands of the family; `wall_clock` tells the age of records."""
    explaining = group_explain.explaining(wall_clock)
    return {
        "list": group_command("list", _list_options, _list, is_watchable=True),
        "describe": group_command("describe", _describe_options, _describing(wall_clock), is_watchable=True),
        "reset-offsets": group_command("reset-offsets", group_reset.options, group_reset.resetting(wall_clock)),
        "explain": group_command("explain", group_explain.options, explaining, is_watchable=True),
        "delete": group_command("delete", _delete_options, _delete),
    }


COMMANDS = commands(SystemClock())

"""What the commands about groups have in common: whom they ask, and how they say what was refused."""

import argparse
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.settings import parse_address

from .group_client import GroupClient
from .group_facts import Member, Partition
from .sc_client import SC, ScClient
from .sc_commands import Command, UsageError
from .server_connection import RefusedError, error_name
from .spu_client import BOOTSTRAP, SpuClient

MEMBERS_NAMED_MAX = 5

_REASONS = {
    ErrorCode.NON_EMPTY_GROUP: "it has members",
    ErrorCode.UNKNOWN_MEMBER_ID: "it has members, who alone may commit",
    ErrorCode.ILLEGAL_GENERATION: "it has members, who alone may commit",
    ErrorCode.STALE_MEMBER_EPOCH: "it has members, who alone may commit",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "its members are subscribed to the topic",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "its coordinator is still loading the groups",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "nobody coordinates it at the moment",
    ErrorCode.LEADER_NOT_AVAILABLE: "nobody leads it at the moment",
}
"""What some errors mean here, of which Kafka sends the code alone."""

GroupAsk = Callable[[GroupClient, argparse.Namespace], Awaitable[None]]


def group_command(name: str, options: Callable[[argparse.ArgumentParser], None], ask: GroupAsk) -> Command:
    """A command that finds the SPUs through the SC, or through any of them."""

    def configure(parser: argparse.ArgumentParser) -> None:
        options(parser)
        parser.add_argument(
            "--bootstrap",
            metavar="HOST:PORT[,HOST:PORT]",
            help="ask these SPUs, or brokers of Apache Kafka, instead of the SC",
        )

    async def asking(sc: ScClient, arguments: argparse.Namespace) -> None:
        if arguments.bootstrap is None:
            spus = SpuClient(sc.network, sc.addresses, SC)
        else:
            addresses = [parse_address(each.strip(), "--bootstrap") for each in arguments.bootstrap.split(",")]
            spus = SpuClient(sc.network, addresses, BOOTSTRAP)
        try:
            await ask(GroupClient(spus), arguments)
        finally:
            spus.close()

    return Command(f"group {name}", configure, asking)


def reason_of(refused: RefusedError) -> str:
    """In words, also where the server has sent a code alone."""
    if str(refused) != error_name(refused.code):
        return str(refused)
    return _REASONS.get(ErrorCode(refused.code), str(refused)) if refused.code in set(ErrorCode) else str(refused)


def raise_the_first(what: str, answers: Mapping[Partition, RefusedError | None]) -> None:
    for partition, refused in answers.items():
        if refused is not None:
            raise RefusedError(f"{what}: {partition}: {reason_of(refused)}", refused.code)


def named_topic(text: str) -> tuple[str, list[int] | None]:
    """A topic, and some of its partitions or all."""
    found = re.fullmatch(r"([^:/]+)(?:[:/]([0-9]{1,9}(?:,[0-9]{1,9})*))?", text)
    if found is None:
        raise UsageError(f"--topic {text}: it takes TOPIC, or TOPIC:0,1 for some of its partitions")
    return found[1], None if found[2] is None else [int(each) for each in found[2].split(",")]


def members_text(members: Sequence[Member]) -> str:
    named = ", ".join(each.whereabouts for each in members[:MEMBERS_NAMED_MAX])
    more = len(members) - MEMBERS_NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named

"""The base of every command that brokers can answer: how it finds them, and how its arguments name partitions.

`--bootstrap` and TAILRACE_BOOTSTRAP name brokers of Tailrace or Apache Kafka. Without them the SC is asked, which knows
the SPUs.
"""

import argparse
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing

from tailrace.client.admin_client import AdminClient
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError, unless_refused
from tailrace.client.spu_client import SpuClient
from tailrace.protocol.error_codes import ErrorCode

from .sc_options import Ask, AskBrokers, Command, UsageError

AdminAsk = Callable[[AdminClient, argparse.Namespace], Awaitable[int | None]]
Options = Callable[[argparse.ArgumentParser], None]


def spu_command(name: str, options: Options, ask: AskBrokers, *, is_watchable: bool = False) -> Command:
    """Makes a command that finds the SPUs through the SC, or through any broker with `--bootstrap`."""

    async def asking(sc: ScClient, arguments: argparse.Namespace) -> int | None:
        with closing(SpuClient(sc.network, sc.addresses, sc.role)) as spus:
            return await ask(spus, arguments)

    return Command(name, options, asking, is_watchable, ask_brokers=ask)


def admin_command(name: str, options: Options, ask: AdminAsk, *, is_watchable: bool = False) -> Command:
    """Makes a command that administers a cluster with Kafka's protocol, through the SC or any broker."""
    return spu_command(name, options, _administering(ask), is_watchable=is_watchable)


def broker_command(
    name: str, options: Options, ask_sc: Ask, ask_brokers: AdminAsk, *, is_watchable: bool = False
) -> Command:
    """Makes a command that the SC answers in full, and any broker as far as Kafka's protocol goes."""
    return Command(name, options, ask_sc, is_watchable, ask_brokers=_administering(ask_brokers))


def _administering(ask: AdminAsk) -> AskBrokers:
    async def asking(spus: SpuClient, arguments: argparse.Namespace) -> int | None:
        return await ask(AdminClient(spus), arguments)

    return asking


def only_the_sc(what: str) -> UsageError:
    """Returns the error for an option that no broker can carry out."""
    return UsageError(f"{what} is only for the SC: name it with --sc instead of --bootstrap")


def named_topic(text: str, flag: str = "") -> tuple[str, list[int] | None]:
    """Reads a topic and some of its partitions; None stands for all partitions."""
    found = re.fullmatch(r"([^:/]+)(?:[:/]([0-9]{1,9}(?:,[0-9]{1,9})*))?", text)
    if found is None:
        raise UsageError(f"{flag}{text}: expected TOPIC, or TOPIC:0,1 for some of its partitions")
    return found[1], None if found[2] is None else [int(each) for each in found[2].split(",")]


async def named_partitions(logs: LogClient, texts: Sequence[str]) -> list[Partition]:
    """Returns the partitions that are named as `named_topic` reads them. Raises RefusedError if one does not exist."""
    named = [named_topic(text) for text in texts]
    there = await logs.partitions([topic for topic, _ in named])
    found: dict[Partition, None] = {}
    for topic, numbers in named:
        of_topic = unless_refused(there[topic])
        for each in of_topic if numbers is None else [Partition(topic, number) for number in numbers]:
            if each not in of_topic:
                raise no_such_partition(*each)
            found[each] = None
    return list(found)


def described_partition(arguments: argparse.Namespace) -> tuple[str, int | None]:
    """Returns the topic of `partition describe`, and the partition that either of its arguments names."""
    takes = "TOPIC, TOPIC/PARTITION or TOPIC PARTITION"
    topic, number = named_partition(arguments.topic, takes)
    if number is not None and arguments.partition is not None:
        raise UsageError(f"{arguments.topic}: expected {takes}")
    return topic, arguments.partition if number is None else number


def named_partition(text: str, takes: str = "TOPIC or TOPIC/PARTITION") -> tuple[str, int | None]:
    """Reads a topic and one of its partitions; None stands for all partitions."""
    topic, slash, number = text.partition("/")
    if slash and re.fullmatch(r"[0-9]{1,9}", number) is None:
        raise UsageError(f"{text}: expected {takes}")
    return topic, int(number) if slash else None


def no_such_partition(topic: str, number: int | None) -> RefusedError:
    """Returns the error if a topic does not have the partition, or any partition."""
    missing = f"topic {topic} has no partitions" if number is None else f"there is no partition {topic}/{number}"
    return RefusedError(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

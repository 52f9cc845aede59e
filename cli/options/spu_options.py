"""The base of every command that brokers can answer: how it finds them, and how partitions are named.

`--bootstrap` and TAILRACE_BOOTSTRAP name brokers of Tailrace or Apache Kafka. Without them the SC is asked, which knows
the SPUs.
"""

import argparse
import re
from collections.abc import Awaitable, Callable

from tailrace.cli.clients.admin_client import AdminClient
from tailrace.cli.clients.sc_client import ScClient
from tailrace.cli.clients.spu_client import SpuClient

from .sc_options import Ask, AskBrokers, Command, UsageError

SpuAsk = AskBrokers
AdminAsk = Callable[[AdminClient, argparse.Namespace], Awaitable[int | None]]
Options = Callable[[argparse.ArgumentParser], None]


def spu_command(name: str, options: Options, ask: SpuAsk, *, is_watchable: bool = False) -> Command:
    """Makes a command that finds the SPUs through the SC, or through any broker with `--bootstrap`."""

    async def asking(sc: ScClient, arguments: argparse.Namespace) -> int | None:
        spus = SpuClient(sc.network, sc.addresses, sc.role)
        try:
            return await ask(spus, arguments)
        finally:
            spus.close()

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

"""The base of every command that brokers can answer: how it finds them, and how partitions are named.

`--bootstrap` and TAILRACE_BOOTSTRAP name brokers of Tailrace or Apache Kafka. Without them the SC is asked, which knows
the SPUs.
"""

import argparse
import os
import re
from collections.abc import Awaitable, Callable

from tailrace.cli.clients.admin_client import AdminClient
from tailrace.cli.clients.sc_client import SC, ScClient
from tailrace.cli.clients.spu_client import BOOTSTRAP, SpuClient
from tailrace.runtime.network import Address
from tailrace.runtime.settings import parse_address

from .sc_options import BOOTSTRAP_VARIABLE, Ask, Command, UsageError

SpuAsk = Callable[[SpuClient, argparse.Namespace], Awaitable[None]]
AdminAsk = Callable[[AdminClient, argparse.Namespace], Awaitable[None]]
Options = Callable[[argparse.ArgumentParser], None]


def spu_command(name: str, options: Options, ask: SpuAsk, *, is_watchable: bool = False) -> Command:
    """Makes a command that finds the SPUs through the SC, or through any broker with `--bootstrap`."""

    async def asking(sc: ScClient, arguments: argparse.Namespace) -> None:
        bootstrap = bootstrap_addresses(arguments)
        spus = SpuClient(sc.network, sc.addresses, SC) if bootstrap is None else _brokers(sc, bootstrap)
        try:
            await ask(spus, arguments)
        finally:
            spus.close()

    return Command(name, _with_bootstrap(options), asking, is_watchable)


def admin_command(name: str, options: Options, ask: AdminAsk, *, is_watchable: bool = False) -> Command:
    """Makes a command that administers a cluster with Kafka's protocol, through the SC or any broker."""

    async def asking(spus: SpuClient, arguments: argparse.Namespace) -> None:
        await ask(AdminClient(spus), arguments)

    return spu_command(name, options, asking, is_watchable=is_watchable)


def broker_command(
    name: str, options: Options, ask_sc: Ask, ask_brokers: AdminAsk, *, is_watchable: bool = False
) -> Command:
    """Makes a command that the SC answers in full, and any broker as far as Kafka's protocol goes."""

    async def asking(sc: ScClient, arguments: argparse.Namespace) -> None:
        bootstrap = bootstrap_addresses(arguments)
        if bootstrap is None:
            await ask_sc(sc, arguments)
            return
        spus = _brokers(sc, bootstrap)
        try:
            await ask_brokers(AdminClient(spus), arguments)
        finally:
            spus.close()

    return Command(name, _with_bootstrap(options), asking, is_watchable)


def bootstrap_addresses(arguments: argparse.Namespace) -> list[Address] | None:
    """Returns the brokers to ask, or None if the SC is to be asked.

    A flag beats the environment, and TAILRACE_BOOTSTRAP beats TAILRACE_SC.
    """
    given, origin = arguments.bootstrap, "--bootstrap"
    if given is not None and arguments.sc is not None:
        raise UsageError("give --bootstrap or --sc, not both: either brokers are asked, or the SC")
    if given is None and arguments.sc is None:
        given, origin = os.environ.get(BOOTSTRAP_VARIABLE) or None, BOOTSTRAP_VARIABLE
    if given is None:
        return None
    return [parse_address(each.strip(), origin, port_min=1) for each in given.split(",")]


def only_the_sc(what: str) -> UsageError:
    """Returns the error for an option that no broker can carry out."""
    return UsageError(f"{what} is only for the SC: name it with --sc instead of --bootstrap")


def named_topic(text: str, flag: str = "") -> tuple[str, list[int] | None]:
    """Reads a topic and some of its partitions; None stands for all partitions."""
    found = re.fullmatch(r"([^:/]+)(?:[:/]([0-9]{1,9}(?:,[0-9]{1,9})*))?", text)
    if found is None:
        raise UsageError(f"{flag}{text}: expected TOPIC, or TOPIC:0,1 for some of its partitions")
    return found[1], None if found[2] is None else [int(each) for each in found[2].split(",")]


def _with_bootstrap(options: Options) -> Options:
    def configure(parser: argparse.ArgumentParser) -> None:
        options(parser)
        parser.add_argument(
            "--bootstrap",
            metavar="HOST:PORT[,HOST:PORT]",
            help="Ask these brokers, of Tailrace or of Apache Kafka, instead of the SC "
            f"(default: ${BOOTSTRAP_VARIABLE}, or the SC).",
        )

    return configure


def _brokers(sc: ScClient, bootstrap: list[Address]) -> SpuClient:
    return SpuClient(sc.network, bootstrap, BOOTSTRAP)

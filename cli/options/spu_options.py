"""The base of every command that asks SPUs: how it finds them, and how partitions are named."""

import argparse
import re
from collections.abc import Awaitable, Callable

from tailrace.cli.clients.sc_client import SC, ScClient
from tailrace.cli.clients.spu_client import BOOTSTRAP, SpuClient
from tailrace.runtime.settings import parse_address

from .sc_options import Command, UsageError

SpuAsk = Callable[[SpuClient, argparse.Namespace], Awaitable[None]]


def spu_command(
    name: str, options: Callable[[argparse.ArgumentParser], None], ask: SpuAsk, *, is_watchable: bool = False
) -> Command:
    """Makes a command that finds the SPUs through the SC, or through any SPU with `--bootstrap`."""

    def configure(parser: argparse.ArgumentParser) -> None:
        options(parser)
        parser.add_argument(
            "--bootstrap",
            metavar="HOST:PORT[,HOST:PORT]",
            help="Find the cluster through these SPUs, or brokers of Apache Kafka, instead of the SC.",
        )

    async def asking(sc: ScClient, arguments: argparse.Namespace) -> None:
        if arguments.bootstrap is None:
            spus = SpuClient(sc.network, sc.addresses, SC)
        else:
            addresses = [
                parse_address(each.strip(), "--bootstrap", port_min=1) for each in arguments.bootstrap.split(",")
            ]
            spus = SpuClient(sc.network, addresses, BOOTSTRAP)
        try:
            await ask(spus, arguments)
        finally:
            spus.close()

    return Command(name, configure, asking, is_watchable)


def named_topic(text: str, flag: str = "") -> tuple[str, list[int] | None]:
    """Reads a topic and some of its partitions; None stands for all partitions."""
    found = re.fullmatch(r"([^:/]+)(?:[:/]([0-9]{1,9}(?:,[0-9]{1,9})*))?", text)
    if found is None:
        raise UsageError(f"{flag}{text}: expected TOPIC, or TOPIC:0,1 for some of its partitions")
    return found[1], None if found[2] is None else [int(each) for each in found[2].split(",")]

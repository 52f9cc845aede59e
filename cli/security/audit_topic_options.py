"""Reads the copies of audit logs in a topic: the options, and the records of the topic in their order."""

import argparse
from collections.abc import AsyncGenerator, Awaitable, Callable

from tailrace.cli.options.client_config import client_config_option
from tailrace.cli.options.sc_options import UsageError, no_options
from tailrace.cli.options.server_choice import SC_DEFAULT
from tailrace.cli.options.spu_options import no_such_partition, spu_command
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import answer_of, answered
from tailrace.client.spu_client import SpuClient
from tailrace.cluster.configs.audit_config_table import AUDIT_PARTITION
from tailrace.protocol.batches.records import Record
from tailrace.runtime.settings_sources import BOOTSTRAP_VARIABLE, SC_VARIABLE

Ask = Callable[[LogClient, argparse.Namespace], Awaitable[int]]


def add_topic(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name a topic and its cluster, instead of a directory."""
    parser.add_argument("--topic", metavar="TOPIC", help="Read the copies of audit logs in this topic instead of DIR.")
    parser.add_argument(
        "--sc", metavar="HOST:PORT", help=f"With --topic: the SC (default: ${SC_VARIABLE}, {SC_DEFAULT})."
    )
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"With --topic: brokers instead of the SC (default: ${BOOTSTRAP_VARIABLE}).",
    )
    client_config_option(parser)


def ask_topic(name: str, ask: Ask, arguments: argparse.Namespace) -> int:
    """Runs a command that reads a topic, and returns its exit status."""

    async def asking(spus: SpuClient, given: argparse.Namespace) -> int:
        if given.directory is not None:
            raise UsageError("a directory and --topic name different logs: give only one of them")
        return await ask(LogClient(spus), given)

    return spu_command(name, no_options, asking).run(arguments)


def check_without_topic(arguments: argparse.Namespace) -> str | None:
    """Returns what is wrong with the arguments if no topic is given, as a sentence; None if nothing is."""
    if arguments.directory is None:
        return "expected DIR, or --topic with the name of a topic"
    for flag in ("sc", "bootstrap", "client_config"):
        if getattr(arguments, flag) is not None:
            return f"--{flag.replace('_', '-')} is only for --topic"
    return None


async def records_of(logs: LogClient, topic: str) -> AsyncGenerator[tuple[str, Record], None]:
    """Reads all records of the partition with audit logs, each with its place. Raises RefusedError."""
    partition = Partition(topic, AUDIT_PARTITION)
    partitions = answer_of(partition, (await logs.partitions([topic]))[topic])
    if partition not in partitions:
        raise no_such_partition(topic, AUDIT_PARTITION)
    ends = answered(await logs.ends([partition]))[partition]
    async for page in logs.pages({partition: ends}):
        for record in page.records:
            yield f"{partition} offset {record.offset}", record

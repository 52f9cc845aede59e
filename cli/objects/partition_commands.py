"""`tailrace partition …`: lists and describes partitions with their leaders, replicas and lags.

All ends are exclusive, as in Kafka's tools: a log with the records 0, 1 and 2 has the log end 3.
"""

import argparse
from collections.abc import Sequence

from tailrace.cli.administration.broker_partitions import describe_partitions, list_partitions
from tailrace.cli.options.sc_options import (
    RecentChanges,
    internal_option,
    seen_before,
    show_documents,
    without_internal,
)
from tailrace.cli.options.spu_options import broker_command, described_partition, no_such_partition
from tailrace.client.sc_client import Document, ScClient
from tailrace.controller.objects.partition_states import mermaid
from tailrace.protocol.internal.describe_partitions import DescribedPartition

from .epoch_history import epoch_documents, older_epochs
from .partition_facts import is_lagging
from .partition_tables import (
    change_document,
    change_table,
    description,
    partition_document,
    partition_table,
    with_true_status,
)

NEVER = -1
EPOCHS_MAX = 50
"""The number of leader epochs to ask of each replica; the last ones are shown."""


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="Topics to list (default: all).")
    parser.add_argument(
        "--lagging", action="store_true", help="List only partitions with a replica that lags or is not live."
    )
    internal_option(parser)


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    partitions = await _described(client, arguments, arguments.topics or None)
    if arguments.lagging:  # Internal topics included: the list is about what is wrong.
        partitions = [each for each in partitions if is_lagging(each)]
    elif not arguments.topics:
        partitions = without_internal(arguments, partitions, lambda each: each.topic)
    documents = await _documents(client, arguments, partitions)
    show_documents(arguments, documents, lambda: partition_table(partitions), _recent_changes(partitions, documents))


def _describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC[/PARTITION]", help="Topic, or one of its partitions.")
    parser.add_argument("partition", metavar="PARTITION", nargs="?", type=int, help="Partition (default: all).")


async def _describe(client: ScClient, arguments: argparse.Namespace) -> None:
    topic, number = described_partition(arguments)
    described = await _described(client, arguments, [topic], EPOCHS_MAX)
    partitions = [each for each in described if number is None or each.partition == number]
    if not partitions:
        raise no_such_partition(topic, number)
    documents = [
        document | {"epochs": epoch_documents(each), "olderEpochs": older_epochs(each)}
        for document, each in zip(await _documents(client, arguments, partitions), partitions, strict=False)
    ]
    changes = _recent_changes(partitions, documents)
    show_documents(arguments, documents, lambda: "\n\n".join(map(description, partitions)), changes)


async def _described(
    client: ScClient, arguments: argparse.Namespace, topics: Sequence[str] | None, epochs_max: int = 0
) -> list[DescribedPartition]:
    """Asks for partitions; with `--watch` also for the statuses that they have had since the last look."""
    seen = seen_before(arguments)
    answer = await client.describe_partitions(topics, epochs_max, NEVER if seen is None else seen.last_change_us)
    if seen is not None:
        seen.last_change_us = answer.last_change_us
    return answer.partitions


def _recent_changes(partitions: list[DescribedPartition], documents: list[Document]) -> RecentChanges | None:
    """The changes of statuses since the last look; None if there are none."""
    if not any(each.status_changes for each in partitions):
        return None
    with_changes = [
        document | {"statusChanges": [change_document(change) for change in each.status_changes]}
        for document, each in zip(documents, partitions, strict=False)
    ]
    return RecentChanges(with_changes, change_table(partitions))


async def _documents(
    client: ScClient, arguments: argparse.Namespace, partitions: list[DescribedPartition]
) -> list[Document]:
    """Returns the documents for JSON and YAML: spec and status of each partition, and what SPUs report about it."""
    if arguments.output == "table":
        return []
    objects = {(each.get("topic"), each.get("partition")): each for each in await client.list_objects("partition")}
    return [
        with_true_status(objects.get((each.topic, each.partition), {}), each) | partition_document(each)
        for each in partitions
    ]


class _StatesCommand:
    """`tailrace partition states`, which asks no server."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds no options."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Prints how the status of a partition changes, as a Mermaid diagram."""
        print(mermaid())
        return 0


COMMANDS = {
    "list": broker_command("partition list", _list_options, _list, list_partitions, is_watchable=True),
    "describe": broker_command(
        "partition describe", _describe_options, _describe, describe_partitions, is_watchable=True
    ),
    "states": _StatesCommand(),
}

"""`tailrace partition …` and `tailrace replica list` with `--bootstrap`: what any broker says about partitions.

Leaders report the bounds of their logs, and every broker reports the sizes of the replicas that it stores.
"""

import argparse
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cli.options.sc_options import show_documents
from tailrace.cli.options.spu_options import described_partition, no_such_partition
from tailrace.cli.output.printing import size_text
from tailrace.cli.output.tables import fields, table
from tailrace.client.admin_client import AdminClient, StoredReplica
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError
from tailrace.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

Document = dict[str, object]


class BrokerPartition(Struct, frozen=True):
    """A partition as brokers describe it."""

    name: Partition
    leader: int | None
    epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    log: LogEnds | None = None
    """The bounds of the leader's log; None without a leader."""

    @property
    def status(self) -> str:
        """The state in one word, as the SC names it."""
        return "Offline" if self.leader is None else "Online"

    @property
    def is_lagging(self) -> bool:
        """Whether the partition has no leader, or a replica that is not in sync."""
        return self.leader is None or len(self.in_sync) < len(self.replicas)


async def list_partitions(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Lists partitions with their leaders, replicas and logs."""
    found = await _listed(admin, arguments.topics, arguments.internal or arguments.lagging)
    if arguments.lagging:
        found = [each for each in found if each.is_lagging]
    partitions = await _with_logs(admin, found)
    show_documents(arguments, [partition_document(each) for each in partitions], lambda: partition_table(partitions))


async def describe_partitions(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Describes the partitions of a topic, or one of them, with each replica."""
    topic, number = described_partition(arguments)
    (described,) = await admin.topics([topic])
    found = [each for each in partitions_of(described) if number is None or each.name.number == number]
    if not found:
        raise no_such_partition(topic, number)
    partitions = await _with_logs(admin, found)
    stored: dict[Partition, list[StoredReplica]] = {each.name: [] for each in partitions}
    for replica in await admin.stored_replicas(stored):
        stored[replica.partition].append(replica)
    documents = [
        partition_document(each) | {"details": [_detail_document(replica) for replica in stored[each.name]]}
        for each in partitions
    ]
    show_documents(
        arguments, documents, lambda: "\n\n".join(_description(each, stored[each.name]) for each in partitions)
    )


async def list_replicas(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Lists the replicas that each broker stores."""
    known = {each.name: each for each in await _listed(admin, arguments.topics, arguments.internal)}
    found = [
        each
        for each in await admin.stored_replicas(known)
        if each.partition in known and (not arguments.spu or each.broker in arguments.spu)
    ]
    found.sort(key=lambda each: (each.broker, each.partition))
    documents = [_replica_document(each, known[each.partition]) for each in found]
    rows = [
        (
            each.broker,
            *each.partition,
            _role(each, known[each.partition]),
            _in_sync(each.broker, known[each.partition]),
            each.lag,
            size_text(each.size_bytes),
            each.directory,
        )
        for each in found
    ]
    titles = ("BROKER", "TOPIC", "PARTITION", "ROLE", "IN SYNC", "LAG", "SIZE", "DIRECTORY")
    show_documents(arguments, documents, lambda: table(titles, rows))


async def _listed(admin: AdminClient, topics: Sequence[str], internal: bool) -> list[BrokerPartition]:
    """Returns the partitions of the named topics, or of all; then internal ones only with `internal`."""
    found = await admin.topics(topics or None)
    return [each for topic in found if topics or internal or not topic.is_internal for each in partitions_of(topic)]


def partitions_of(topic: MetadataResponseTopic) -> list[BrokerPartition]:
    """Returns the partitions of a topic, in the order of their numbers."""
    return [
        _partition(topic.name or "", each)
        for each in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    ]


def _partition(topic: str, partition: MetadataResponsePartition) -> BrokerPartition:
    return BrokerPartition(
        Partition(topic, partition.partition_index),
        partition.leader_id if partition.leader_id >= 0 else None,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
    )


async def _with_logs(admin: AdminClient, partitions: Sequence[BrokerPartition]) -> list[BrokerPartition]:
    """Adds the bounds of logs. Skips partitions without a leader, because the client would wait for one."""
    led = [each.name for each in partitions if each.leader is not None]
    logs: Mapping[Partition, LogEnds | RefusedError] = await admin.logs.ends(led) if led else {}
    known = {name: log for name, log in logs.items() if not isinstance(log, RefusedError)}
    return [replace(each, log=known.get(each.name)) for each in partitions]


def partition_table(partitions: Sequence[BrokerPartition]) -> str:
    """Formats partitions, one in each row."""
    titles = ("TOPIC", "PARTITION", "LEADER", "IN SYNC", "REPLICAS", "OFFLINE", "START", "END", "EPOCH", "STATUS")
    return table(
        titles,
        [
            (
                *each.name,
                each.leader,
                list(each.in_sync),
                list(each.replicas),
                list(each.offline) or None,
                None if each.log is None else each.log.start,
                None if each.log is None else each.log.end,
                each.epoch,
                each.status,
            )
            for each in partitions
        ],
    )


def partition_document(partition: BrokerPartition) -> Document:
    """Makes a document of a partition, with the names that the documents of the SC have."""
    return {
        "topic": partition.name.topic,
        "partition": partition.name.number,
        "leader": partition.leader,
        "epoch": partition.epoch,
        "lrs": list(partition.in_sync),
        "replicas": list(partition.replicas),
        "offline": list(partition.offline),
        "resolution": partition.status,
        "logStart": None if partition.log is None else partition.log.start,
        "logEnd": None if partition.log is None else partition.log.end,
    }


def _description(partition: BrokerPartition, stored: Sequence[StoredReplica]) -> str:
    log = partition.log
    about = fields(
        [
            ("Partition", partition.name),
            ("Leader", "none" if partition.leader is None else partition.leader),
            ("Epoch", partition.epoch),
            ("Replicas", list(partition.replicas)),
            ("In sync", list(partition.in_sync)),
            ("Offline", list(partition.offline) or None),
            ("Log", None if log is None else f"{log.start} to {log.end}"),
            ("Status", partition.status),
        ]
    )
    by_broker = {each.broker: each for each in stored if not each.is_future}
    rows = []
    for broker in partition.replicas:
        replica = by_broker.get(broker)
        rows.append(
            (
                broker,
                "leader" if broker == partition.leader else "follower",
                _in_sync(broker, partition),
                None if replica is None else replica.lag,
                None if replica is None else size_text(replica.size_bytes),
                None if replica is None else replica.directory,
            )
        )
    return f"{about}\n" + table(("BROKER", "ROLE", "IN SYNC", "LAG", "SIZE", "DIRECTORY"), rows)


def _replica_document(replica: StoredReplica, partition: BrokerPartition) -> Document:
    return {
        "topic": replica.partition.topic,
        "partition": replica.partition.number,
        "role": _role(replica, partition),
        "isLive": replica.broker in partition.in_sync,
        **_detail_document(replica),
    }


def _detail_document(replica: StoredReplica) -> Document:
    return {
        "spuId": replica.broker,
        "lag": replica.lag,
        "sizeBytes": replica.size_bytes,
        "directory": replica.directory,
        "isFuture": replica.is_future,
    }


def _role(replica: StoredReplica, partition: BrokerPartition) -> str:
    if replica.is_future:
        return "moving here"
    return "leader" if replica.broker == partition.leader else "follower"


def _in_sync(broker: int, partition: BrokerPartition) -> str:
    return "yes" if broker in partition.in_sync else "no"

"""The facts about a deployed trigger: its object, its replicas, and its shards with their owners and progress."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from tailrace.client.sc_client import Document
from tailrace.client.server_connection import UnreachableError
from tailrace.cluster.specs import NO_LEADER
from tailrace.cluster.stream_state.replica_report import CURRENT_SECONDS, ReplicaReport, ShardReport
from tailrace.cluster.stream_state.stream_state import StreamMember, StreamRead
from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import read_document
from tailrace.controller.objects.objects import Trigger
from tailrace.controller.objects.trigger_documents import HIDDEN
from tailrace.protocol.internal.describe_partitions import DescribedPartition
from tailrace.trigger.functions.deployed_function import KIND


class ReplicaFacts(Struct, frozen=True):
    """One replica of a trigger."""

    name: str
    revision: int | None
    """The revision that the replica should run; None if it should not run any more."""
    process: str
    """What the SC knows of its process, or nothing if the SC does not run it."""
    report: ReplicaReport | None
    report_age: float
    """The age of the report in seconds."""

    @property
    def current(self) -> ReplicaReport | None:
        """The report, if it says what the replica does now."""
        return self.report if self.report_age <= CURRENT_SECONDS else None


class ShardFacts(Struct, frozen=True):
    """One shard of the trigger's topic."""

    number: int
    owner: StreamMember | None
    """The member that has the shard, by the state object."""
    owner_age: float
    """The age of the owner's last heartbeat in seconds."""
    report: ShardReport | None
    """What the owner has reported about the shard, if its report is current."""
    has_leader: bool
    """Whether the partition has a leader, from which it can be read."""
    reason: str
    """Why the partition has no leader."""


class TriggerFacts(Struct, frozen=True):
    """A deployed trigger as a whole."""

    trigger: Trigger
    replicas: tuple[ReplicaFacts, ...]
    shards: tuple[ShardFacts, ...]
    epoch: int
    """The epoch of the state object."""

    @property
    def members(self) -> tuple[StreamMember, ...]:
        """The members that have shards, each once."""
        owners = {shard.owner.member_id: shard.owner for shard in self.shards if shard.owner is not None}
        return tuple(owners.values())

    def replica(self, name: str) -> ReplicaFacts | None:
        """Returns the replica of a name, if there is one."""
        return next((each for each in self.replicas if each.name == name), None)

    def report(self, name: str) -> ReplicaReport | None:
        """Returns what the replica of a name does now, if it has reported that."""
        found = self.replica(name)
        return None if found is None else found.current


def trigger_facts(document: Document, read: StreamRead, partitions: Sequence[DescribedPartition]) -> TriggerFacts:
    """Combines what the SC says about a trigger, its state object, and the partitions of its topic."""
    replicas = replicas_of(document)
    reports = {each.name: each.current for each in replicas}
    described = {each.partition: each for each in partitions}
    shards = tuple(_shard(number, read, reports, described.get(number)) for number in range(read.shards))
    return TriggerFacts(trigger_of(document), replicas, shards, read.state.epoch)


def trigger_of(document: Document) -> Trigger:
    """Returns the trigger that a document of the SC describes."""
    try:
        found = read_document(KIND, document)
    except FieldError as error:
        raise UnreachableError(f"the SC sent a trigger that this version cannot read: {error}") from error
    assert isinstance(found, Trigger)
    return found


def replicas_of(document: Document) -> tuple[ReplicaFacts, ...]:
    """Returns the replicas that a document of a trigger lists."""
    return tuple(map(_replica, replica_documents(document)))


def replica_documents(document: Document) -> list[Document]:
    """Returns the documents of a trigger's replicas."""
    found = (document.get("status") or {}).get("replicas")
    return found if isinstance(found, list) else []


def without_secrets(document: Document) -> Document:
    """Returns the document of a trigger with nothing in it that only replicas should know."""
    spec = document.get("spec") or {}
    config = dict(spec.get("config") or {})
    if config.get("access_key"):
        config["access_key"] = HIDDEN
    return {**document, "spec": {**spec, "config": config}}


def _replica(document: Document) -> ReplicaFacts:
    report = document.get("report")
    try:
        return ReplicaFacts(
            document["name"],
            document.get("revision"),
            document.get("process", ""),
            None if report is None else msgspec.convert(report, ReplicaReport),
            document.get("reportAgeMs", 0) / 1000,
        )
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise UnreachableError(f"the SC sent a report that this version cannot read: {error!r}") from error


def _shard(
    number: int,
    read: StreamRead,
    reports: Mapping[str, ReplicaReport | None],
    partition: DescribedPartition | None,
) -> ShardFacts:
    owner = read.state.owner(number)
    report = None if owner is None else reports.get(owner.member_id)
    shards = () if report is None else report.shards
    return ShardFacts(
        number,
        owner,
        0.0 if owner is None else read.ages_ms.get(owner.member_id, 0) / 1000,
        next((each for each in shards if each.shard == number), None),
        partition is None or partition.leader != NO_LEADER,
        "" if partition is None else partition.reason,
    )

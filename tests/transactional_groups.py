"""A coordinator of groups whose log has transactions: batches of producers, and their markers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from committing import Errors, Offsets
from grouping import Asked, GroupWorld

from tailrace.broker.coordination.coordinator_output import RecordProducer
from tailrace.broker.coordination.folded_records import FoldedRecords
from tailrace.broker.groups.common.coordinator_records import GroupRecord, decode_record, encode_record
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.groups.offsets.offset_fetching import ResponseBudget
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NEWEST = 5


@dataclass
class TransactionalGroupWorld(GroupWorld):
    batches: list[Buffer] = field(default_factory=list)
    """The log, which the next coordinator loads."""

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """Writes the marker of the producer's transaction."""
        self.batches.append(
            marker_batch(
                len(self.batches), 0, producer_id, 0, is_commit=is_commit, coordinator_epoch=1, now_ms=self.now_ms
            )
        )
        self.coordinator.on_marker(producer_id, is_commit=is_commit)
        self._carry_out()

    def restart(self, records: int | None = None) -> None:
        assert records is None
        for waiter in self.coordinator.waiters():
            waiter.refuse(KafkaError(ErrorCode.NOT_COORDINATOR, "not the coordinator"))
        self.coordinator = self._new()
        load(self.coordinator, self.batches)
        self.coordinator.on_loaded(self.moment)
        self._carry_out()

    def reader(self) -> "TransactionalGroupWorld":
        """Returns another coordinator that has loaded the log."""
        other = TransactionalGroupWorld(self.settings, self.cluster, [], self.now, self.now_ms)
        other.batches = list(self.batches)
        other.restart()
        return other

    def _carry_out(self) -> None:
        producer, records = self.coordinator.output.producer, list(self.coordinator.output.records)
        super()._carry_out()
        if records:
            self.batches.append(_batch(len(self.batches), records, producer))


def _batch(offset: int, records: list[GroupRecord], producer: RecordProducer | None) -> bytearray:
    stored = [Record(offset + place, 0, *encode_record(record)) for place, record in enumerate(records)]
    if producer is None:
        return build_batch(stored, base_offset=offset)
    return build_batch(
        stored,
        base_offset=offset,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        is_transactional=True,
    )


def load(coordinator: Coordinator, batches: list[Buffer]) -> None:
    """Replays a log, as the hosting of coordinators does."""
    records = FoldedRecords()
    for batch in batches:
        records.take(memoryview(batch), read_header(batch))
    for key, value in records.by_key.items():
        record = decode_record(key, value)
        assert record is not None
        coordinator.replay(record)
    for producer_id, key, value in records.pending:
        record = decode_record(key, value)
        assert record is not None
        coordinator.replay_pending(producer_id, record)


def txn_offset_commit(
    group: str,
    offsets: Offsets,
    producer_id: int = 7,
    *,
    transactional_id: str = "t",
    epoch: int = 0,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = "",
    leader_epoch: int = -1,
) -> TxnOffsetCommitRequest:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, partition), offset in offsets.items():
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name))
        topic.partitions.append(TxnOffsetCommitRequestPartition(partition, offset, leader_epoch, metadata))
    return TxnOffsetCommitRequest(
        transactional_id, group, producer_id, epoch, generation, member, instance, list(topics.values())
    )


def commit_in_transaction(
    world: GroupWorld, group: str, offsets: Offsets, producer_id: int = 7, version: int = NEWEST, **more: object
) -> Errors:
    """Commits offsets in the open transaction of the producer. Returns the error of each partition."""
    request = txn_offset_commit(group, offsets, producer_id, **more)  # type: ignore[arg-type]
    asked = world.ask(
        lambda coordinator, moment, waiter: coordinator.offsets.commit_in_transaction(request, version, waiter, moment)
    )
    return {
        (topic.name, each.partition_index): each.error_code for topic in asked.reply.topics for each in topic.partitions
    }


def ask_stable(world: GroupWorld, group: str, *places: tuple[str, int]) -> Asked:
    """Fetches offsets that no open transaction may replace: of these partitions, or all."""
    topics = [OffsetFetchRequestTopics(name, partition_indexes=[partition]) for name, partition in places]
    asked = OffsetFetchRequestGroup(group, topics=topics if places else None)
    call: Callable[..., None] = lambda coordinator, moment, waiter: coordinator.offsets.fetch(  # noqa: E731
        asked, 9, ResponseBudget(1 << 20), waiter, moment, require_stable=True
    )
    return world.ask(call)


def stable(asked: Asked) -> dict[tuple[str, int], int | ErrorCode]:
    """Returns the offset of each partition in the response, or its error."""
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code) if each.error_code else each.committed_offset
        for topic in asked.reply.topics
        for each in topic.partitions
    }

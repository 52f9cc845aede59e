"""ListOffsets, versions 1–11: where a log starts and ends, and which record is the first at or after a time.

The special times of Kafka are -1 latest, -2 earliest, -3 the record with the largest timestamp (v7), -4 earliest on
local disks (v8), -5 the last offset in remote storage (v9), -6 the earliest that is not in remote storage (v11).
What Kafka has in remote storage is on shelves here, and local is the log of the replica. Where there are none, -4
answers as -2, and -5 and -6 know no offset.

- The leader answers, with what is committed. While a new leader has not committed all that the one before left, offsets
  that depend on it are OFFSET_NOT_AVAILABLE, before v5 LEADER_NOT_AVAILABLE: a consumer must not begin before what it
  was told already.
- Who names itself replica -2, as tools do that look into a log, is answered by followers too, and is told the end of
  the log itself as the latest.
- To find a time takes milliseconds where batches are large, and who begins to read at some time asks for it in all
  partitions at once: others get their turn in between. What is on shelves is asked of their stores.
"""

from collections import Counter
from collections.abc import Coroutine, Iterator

import trio
from msgspec import Struct

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.shelves.shelf_reads import ShelfReader
from tailrace.cluster.shelf_lookup import shelved_end, shelves_before
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import DEBUGGING_REPLICA, NO_EPOCH
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tailrace.server.request_context import RequestContext

from .record_host import ListOffsetsHost

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
OFFSET_NOT_AVAILABLE_FROM = 5
NEVER = 1 << 15
_FIRST_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


class ShelvedQuestion(Struct, eq=False):
    """By time, of a partition that begins before its log here."""

    replica: Replica
    timestamp: int
    response: ListOffsetsPartitionResponse
    version: int


def handle(
    host: ListOffsetsHost, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[object, object, ListOffsetsResponse]:
    asked = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    response = ListOffsetsResponse()
    shelved: list[ShelvedQuestion] = []
    answers = _answers(host.replicas, context.api_version, request, asked, response, shelved)
    if sum(_is_by_time(partition) for topic in request.topics for partition in topic.partitions) > 1:
        return _in_turns(answers, response, shelved, host.shelf_reader)
    for _ in answers:
        pass
    return _with_shelved(response, shelved, host.shelf_reader) if shelved else response


async def _in_turns(
    answers: Iterator[ListOffsetsPartition],
    response: ListOffsetsResponse,
    shelved: list[ShelvedQuestion],
    reader: ShelfReader,
) -> ListOffsetsResponse:
    for partition in answers:
        if _is_by_time(partition):
            await trio.lowlevel.checkpoint()
    return await _with_shelved(response, shelved, reader)


async def _with_shelved(
    response: ListOffsetsResponse, shelved: list[ShelvedQuestion], reader: ShelfReader
) -> ListOffsetsResponse:
    async with trio.open_nursery() as nursery:
        for question in shelved:
            nursery.start_soon(_answer_shelved, question, reader)
    return response


async def _answer_shelved(question: ShelvedQuestion, reader: ShelfReader) -> None:
    replica, epoch, response = question.replica, question.replica.spec.epoch, question.response
    try:
        if question.timestamp == MAX_TIMESTAMP:
            found = await reader.max_timestamp(replica)
        else:
            found = await reader.find_timestamp(replica, question.timestamp)
        replica.check_leads(epoch)
        if question.timestamp == MAX_TIMESTAMP or found is None:
            here = _find_by_time(replica, question.timestamp, question.version)
            found = here if found is None or (here is not None and here[0] > found[0]) else found
    except KafkaError as error:
        response.error_code = error.code
        return
    if found is not None:
        response.timestamp, response.offset, response.leader_epoch = found


def _is_by_time(partition: ListOffsetsPartition) -> bool:
    """Whether a batch has to be unpacked and looked through for it."""
    return partition.timestamp >= 0 or partition.timestamp == MAX_TIMESTAMP


def _answers(
    replicas: ReplicaRegistry,
    version: int,
    request: ListOffsetsRequest,
    asked: Counter[tuple[str, int]],
    response: ListOffsetsResponse,
    shelved: list[ShelvedQuestion],
) -> Iterator[ListOffsetsPartition]:
    """Each partition, when its answer is in the response, or it is among the shelved ones."""
    is_debugging = request.replica_id == DEBUGGING_REPLICA
    for topic in request.topics:
        answered = ListOffsetsTopicResponse(topic.name)
        response.topics.append(answered)
        for partition in topic.partitions:
            times_asked = asked[topic.name, partition.partition_index]
            answered.partitions.append(
                _answer(replicas, version, topic.name, partition, times_asked, shelved, is_debugging=is_debugging)
            )
            yield partition


def _answer(
    replicas: ReplicaRegistry,
    version: int,
    topic: str,
    partition: ListOffsetsPartition,
    times_asked: int,
    shelved: list[ShelvedQuestion],
    *,
    is_debugging: bool,
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
    try:
        if times_asked > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is named twice")
        _check_known(partition.timestamp, version)
        find = replicas.reading if is_debugging else replicas.leading
        replica = find(topic, partition.partition_index, partition.current_leader_epoch)
        if _is_by_time(partition) and shelves_before(replica.spec, replica.log.log_start):
            if not replica.is_leader:
                raise replica.not_leader()
            shelved.append(ShelvedQuestion(replica, partition.timestamp, response, version))
            return response
        found = _find(replica, partition.timestamp, version, is_debugging=is_debugging)
    except KafkaError as error:
        response.error_code = error.code
        return response
    if found is not None:
        response.timestamp, response.offset, response.leader_epoch = found
    return response


def _find(replica: Replica, timestamp: int, version: int, *, is_debugging: bool) -> tuple[int, int, int] | None:
    """Timestamp, offset and leader epoch; None where no record matches."""
    log = replica.log
    if timestamp == LATEST:
        if is_debugging:
            return -1, log.log_end, replica.spec.epoch
        _check_recovered(replica, version)
        return -1, replica.high_watermark, replica.spec.epoch
    if timestamp == EARLIEST_LOCAL or (timestamp == EARLIEST and replica.earliest >= log.log_start):
        # Where there is no record, the leader's own epoch is that of the first one to come.
        is_empty = log.log_start == log.log_end
        return -1, log.log_start, replica.spec.epoch if is_empty else log.epoch_at(log.log_start)
    if timestamp == EARLIEST:
        return -1, replica.earliest, NO_EPOCH
    if timestamp == LATEST_TIERED:
        end = shelved_end(replica.spec)
        return (-1, end - 1, NO_EPOCH) if end > replica.earliest else None
    if timestamp == EARLIEST_PENDING_UPLOAD:
        return (-1, max(shelved_end(replica.spec), log.log_start), NO_EPOCH) if replica.has_shelves else None
    return _find_by_time(replica, timestamp, version)


def _find_by_time(replica: Replica, timestamp: int, version: int) -> tuple[int, int, int] | None:
    if timestamp == MAX_TIMESTAMP:
        _check_recovered(replica, version)
        return replica.max_timestamp()
    found = replica.find_timestamp(timestamp)
    if found is None:
        _check_recovered(replica, version)
    return found


def _check_known(timestamp: int, version: int) -> None:
    """First of all, whoever leads: nobody else would know such a time either."""
    if timestamp < 0 and version < _FIRST_VERSION.get(timestamp, NEVER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"time {timestamp} has no meaning in version {version}")


def _check_recovered(replica: Replica, version: int) -> None:
    if replica.is_recovering:
        code = (
            ErrorCode.OFFSET_NOT_AVAILABLE if version >= OFFSET_NOT_AVAILABLE_FROM else ErrorCode.LEADER_NOT_AVAILABLE
        )
        raise KafkaError(code, "what the leader before left is not committed yet")

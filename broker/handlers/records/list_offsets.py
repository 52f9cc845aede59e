"""ListOffsets, versions 1–11: where a log starts and ends, and which record is the first at or after a time.

Kafka's special times are -1 latest, -2 earliest, -3 the record with the largest timestamp (v7), -4 earliest on local
disks (v8), -5 the last offset in remote storage (v9), -6 the earliest offset that is not in remote storage (v11).
Shelves take the part of Kafka's remote storage, and the replica's log is the local one. Without shelves, -4 is the same
as -2, and -5 and -6 find no offset.

- The leader responds with what is committed. Until a new leader has committed everything that the earlier one left,
  offsets that depend on it are OFFSET_NOT_AVAILABLE, before v5 LEADER_NOT_AVAILABLE. Otherwise a consumer could start
  before an offset that it was told already.
- A client that reads committed transactions only (isolation level 1) gets the last stable offset as the latest one, and
  finds times and newest records before it.
- A client with replica id -2, such as a tool that looks into a log, gets responses from followers as well, and the log
  end as the latest offset.
- Finding a time takes milliseconds if batches are large, and a client that starts reading at some time asks for it in
  all partitions at once. Such a request is handled in several turns. Times on shelves are asked of their stores.
"""

from collections import Counter
from collections.abc import Coroutine, Iterator

import trio
from msgspec import Struct

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.shelves.shelf_reads import ShelfReads
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

from .fetch import READ_COMMITTED
from .record_host import ListOffsetsHost

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
OFFSET_NOT_AVAILABLE_FROM = 5
_NEVER = 1 << 15
_FIRST_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


class ShelvedSearch(Struct, eq=False):
    """A search by time in a partition that has older records on shelves."""

    replica: Replica
    timestamp: int
    response: ListOffsetsPartitionResponse
    version: int
    reads_committed: bool


def handle(
    host: ListOffsetsHost, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[object, object, ListOffsetsResponse]:
    asked = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    response = ListOffsetsResponse()
    shelved: list[ShelvedSearch] = []
    answers = _answers(host.replicas, context.api_version, request, asked, response, shelved)
    if sum(_is_by_time(partition) for topic in request.topics for partition in topic.partitions) > 1:
        return _in_turns(answers, response, shelved, host.shelf_reads)
    for _ in answers:
        pass
    return _with_shelved(response, shelved, host.shelf_reads) if shelved else response


async def _in_turns(
    answers: Iterator[ListOffsetsPartition],
    response: ListOffsetsResponse,
    shelved: list[ShelvedSearch],
    reader: ShelfReads,
) -> ListOffsetsResponse:
    for partition in answers:
        if _is_by_time(partition):
            await trio.lowlevel.checkpoint()
    return await _with_shelved(response, shelved, reader)


async def _with_shelved(
    response: ListOffsetsResponse, shelved: list[ShelvedSearch], reader: ShelfReads
) -> ListOffsetsResponse:
    async with trio.open_nursery() as nursery:
        for search in shelved:
            nursery.start_soon(_answer_shelved, search, reader)
    return response


async def _answer_shelved(search: ShelvedSearch, reader: ShelfReads) -> None:
    replica, epoch, response = search.replica, search.replica.spec.epoch, search.response
    try:
        if search.timestamp == MAX_TIMESTAMP:
            found = await reader.max_timestamp(replica)
        else:
            found = await reader.find_timestamp(replica, search.timestamp)
        replica.check_leads(epoch)
        if search.timestamp == MAX_TIMESTAMP or found is None:
            here = _find_by_time(replica, search.timestamp, search.version, reads_committed=search.reads_committed)
            found = here if found is None or (here is not None and here[0] > found[0]) else found
    except KafkaError as error:
        response.error_code = error.code
        return
    if found is not None:
        response.timestamp, response.offset, response.leader_epoch = found


def _is_by_time(partition: ListOffsetsPartition) -> bool:
    """Whether the search has to decompress a batch and read its records."""
    return partition.timestamp >= 0 or partition.timestamp == MAX_TIMESTAMP


def _answers(
    replicas: ReplicaRegistry,
    version: int,
    request: ListOffsetsRequest,
    asked: Counter[tuple[str, int]],
    response: ListOffsetsResponse,
    shelved: list[ShelvedSearch],
) -> Iterator[ListOffsetsPartition]:
    """Yields each partition when its part is in the response, or its search is among the shelved ones."""
    is_debugging = request.replica_id == DEBUGGING_REPLICA
    reads_committed = request.isolation_level == READ_COMMITTED
    for topic in request.topics:
        answered = ListOffsetsTopicResponse(topic.name)
        response.topics.append(answered)
        for partition in topic.partitions:
            times_asked = asked[topic.name, partition.partition_index]
            answered.partitions.append(
                _answer(
                    replicas,
                    version,
                    topic.name,
                    partition,
                    times_asked,
                    shelved,
                    is_debugging=is_debugging,
                    reads_committed=reads_committed,
                )
            )
            yield partition


def _answer(
    replicas: ReplicaRegistry,
    version: int,
    topic: str,
    partition: ListOffsetsPartition,
    times_asked: int,
    shelved: list[ShelvedSearch],
    *,
    is_debugging: bool,
    reads_committed: bool,
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
            shelved.append(ShelvedSearch(replica, partition.timestamp, response, version, reads_committed))
            return response
        found = _find(replica, partition.timestamp, version, is_debugging=is_debugging, reads_committed=reads_committed)
    except KafkaError as error:
        response.error_code = error.code
        return response
    if found is not None:
        response.timestamp, response.offset, response.leader_epoch = found
    return response


def _find(
    replica: Replica, timestamp: int, version: int, *, is_debugging: bool, reads_committed: bool
) -> tuple[int, int, int] | None:
    """Returns timestamp, offset and leader epoch, or None if no record matches. Raises KafkaError."""
    log = replica.log
    if timestamp == LATEST:
        if is_debugging:
            return -1, log.log_end, replica.spec.epoch
        _check_recovered(replica, version)
        return -1, _end_for(replica, reads_committed=reads_committed), replica.spec.epoch
    if timestamp == EARLIEST_LOCAL or (timestamp == EARLIEST and replica.earliest >= log.log_start):
        # The first record of an empty log will have the leader's own epoch.
        is_empty = log.log_start == log.log_end
        return -1, log.log_start, replica.spec.epoch if is_empty else log.epoch_at(log.log_start)
    if timestamp == EARLIEST:
        return -1, replica.earliest, NO_EPOCH
    if timestamp == LATEST_TIERED:
        end = shelved_end(replica.spec)
        return (-1, end - 1, NO_EPOCH) if end > replica.earliest else None
    if timestamp == EARLIEST_PENDING_UPLOAD:
        return (-1, max(shelved_end(replica.spec), log.log_start), NO_EPOCH) if replica.has_shelves else None
    return _find_by_time(replica, timestamp, version, reads_committed=reads_committed)


def _end_for(replica: Replica, *, reads_committed: bool) -> int:
    return replica.last_stable_offset if reads_committed else replica.high_watermark


def _find_by_time(
    replica: Replica, timestamp: int, version: int, *, reads_committed: bool
) -> tuple[int, int, int] | None:
    end = _end_for(replica, reads_committed=reads_committed)
    if timestamp == MAX_TIMESTAMP:
        _check_recovered(replica, version)
        return replica.max_timestamp(end)
    found = replica.find_timestamp(timestamp, end)
    if found is None:
        _check_recovered(replica, version)
    return found


def _check_known(timestamp: int, version: int) -> None:
    """Raises KafkaError if the version has no such special time. This is checked before the leader: no SPU knows the
    time."""
    if timestamp < 0 and version < _FIRST_VERSION.get(timestamp, _NEVER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"time {timestamp} has no meaning in version {version}")


def _check_recovered(replica: Replica, version: int) -> None:
    """Raises KafkaError while records of an earlier leader are not committed."""
    if replica.is_recovering:
        code = (
            ErrorCode.OFFSET_NOT_AVAILABLE if version >= OFFSET_NOT_AVAILABLE_FROM else ErrorCode.LEADER_NOT_AVAILABLE
        )
        raise KafkaError(code, "the records that the earlier leader left are not committed yet")

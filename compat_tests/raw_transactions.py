"""Requests of transactions, encoded by hand: those of older clients (TV1), and those of newer ones (TV2, KIP-890)."""

import struct
import time
import uuid
from collections.abc import Callable

from clients.batches import build_batch, patched
from raw import FETCH, LIST_OFFSETS, PRODUCE, SECONDS_MAX, Connection, fetch_result, frame, string

FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN, WRITE_TXN_MARKERS = 10, 22, 24, 26, 27
NONE, NOT_ENOUGH_REPLICAS, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED = 0, 19, 47, 48, 90
_RETRIABLE = (14, 15, 16, 51)
"""Errors while a coordinator is loading, or is still ending the transaction before."""
_OF_TRANSACTIONS = 1
_ATTRIBUTES_POSITION = 21
_TRANSACTIONAL = 0x10
_NO_TAGS = b"\0"


class Transactional:
    """A transactional producer on one connection."""

    def __init__(self, connection: Connection, transactional_id: str | None = None, timeout_ms: int = 60_000) -> None:
        self.connection = connection
        self.transactional_id = transactional_id or f"id-{uuid.uuid4()}"
        wanted = string(self.transactional_id) + struct.pack(">b", _OF_TRANSACTIONS)
        assert _retried(lambda: struct.unpack_from(">ih", connection.call(FIND_COORDINATOR, 1, wanted))[1:]) == (NONE,)
        body = string(self.transactional_id) + struct.pack(">i", timeout_ms)
        error, self.producer_id, self.epoch = _retried(
            lambda: struct.unpack_from(">ihqh", connection.call(INIT_PRODUCER_ID, 1, body))[1:]
        )
        assert error == NONE

    def batch(self, value: bytes, sequence: int) -> bytes:
        """Returns a transactional batch."""
        now_ms = int(time.time() * 1000)  # markers have the time of the broker, and must not begin another segment
        batch = build_batch([value], producer=(self.producer_id, self.epoch, sequence), timestamp_ms=now_ms)
        return patched(batch, _ATTRIBUTES_POSITION, ">h", _TRANSACTIONAL)

    def produce(self, topic: str, value: bytes, sequence: int, *, version: int = 3) -> tuple[int, int]:
        """Sends one batch; returns the error and the offset. Version 12 adds the partition to the transaction."""
        batch = self.batch(value, sequence)
        if version < 12:
            topics = struct.pack(">i", 1) + string(topic) + struct.pack(">iii", 1, 0, len(batch)) + batch
            body = string(self.transactional_id) + struct.pack(">hi", -1, 10_000) + topics
            answer = self.connection.call(PRODUCE, version, body)
            (name_size,) = struct.unpack_from(">h", answer, 4)
            position = 4 + 2 + name_size + 4 + 4
        else:
            partition = struct.pack(">i", 0) + _compact_size(len(batch)) + batch + _NO_TAGS
            topics = _compact_size(1) + _compact(topic) + _compact_size(1) + partition + _NO_TAGS
            body = _compact(self.transactional_id) + struct.pack(">hi", -1, 10_000) + topics + _NO_TAGS
            answer = call_flexible(self.connection, PRODUCE, version, body)
            position = 1 + 1 + len(topic) + 1 + 4
        error, offset = struct.unpack_from(">hq", answer, position)
        return error, offset

    def add_partition(self, topic: str) -> int:
        """Adds partition 0 of a topic to the transaction, as TV1 does; returns the error."""
        head = string(self.transactional_id) + struct.pack(">qh", self.producer_id, self.epoch)
        body = head + struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, 0)
        (error,) = _retried(lambda: struct.unpack(">h", self.connection.call(ADD_PARTITIONS_TO_TXN, 1, body)[-2:]))
        return error

    def end(self, *, is_commit: bool) -> int:
        """Ends the transaction as TV1 does; returns the error."""
        head = string(self.transactional_id) + struct.pack(">qh", self.producer_id, self.epoch)
        answer = self.connection.call(END_TXN, 1, head + struct.pack(">?", is_commit))
        _, error = struct.unpack_from(">ih", answer)
        return int(error)

    def end_with_new_epoch(self, *, is_commit: bool) -> int:
        """Ends the transaction as TV2 does, and takes over the new epoch; returns the error."""
        producer = struct.pack(">qh?", self.producer_id, self.epoch, is_commit)
        body = _compact(self.transactional_id) + producer + _NO_TAGS
        answer = call_flexible(self.connection, END_TXN, 5, body)
        _, error, producer_id, epoch = struct.unpack_from(">ihqh", answer)
        if error == NONE:
            self.producer_id, self.epoch = producer_id, epoch
        return int(error)

    def write_marker(self, topic: str, *, is_commit: bool, coordinator_epoch: int) -> int:
        """Writes a marker past the coordinator, as `kafka-transactions.sh abort` does; returns the error."""
        topics = _compact_size(1) + _compact(topic) + _compact_size(1) + struct.pack(">i", 0) + _NO_TAGS
        head = struct.pack(">qh?", self.producer_id, self.epoch, is_commit)
        marker = head + topics + struct.pack(">i", coordinator_epoch) + _NO_TAGS
        answer = call_flexible(self.connection, WRITE_TXN_MARKERS, 1, _compact_size(1) + marker + _NO_TAGS)
        (error,) = struct.unpack_from(">h", answer, 1 + 8 + 1 + 1 + len(topic) + 1 + 4)
        return int(error)


def _retried(call: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
    """Returns the result of a call, which begins with an error. Retries while there is no coordinator."""
    deadline = time.monotonic() + SECONDS_MAX
    while (result := call())[0] in _RETRIABLE and time.monotonic() < deadline:
        time.sleep(0.05)
    return result


def stable_offset(connection: Connection, topic: str) -> int:
    """Returns the last stable offset of partition 0: the end of what committed readers see."""
    body = struct.pack(">ibi", -1, 1, 1) + string(topic) + struct.pack(">iiq", 1, 0, -1)
    answer = connection.call(LIST_OFFSETS, 2, body)
    error, _, offset = struct.unpack_from(">hqq", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    assert error == NONE
    return int(offset)


def committed_bytes(connection: Connection, topic: str) -> bytes:
    """Returns what a committed reader is sent of partition 0; records of aborted transactions are part of it."""
    head = struct.pack(">iiiib", -1, 0, 1, 1 << 20, 1) + struct.pack(">i", 1)
    body = head + string(topic) + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    error, _, records = fetch_result(connection.call(FETCH, 4, body))
    assert error == NONE
    return records


def call_flexible(connection: Connection, key: int, version: int, body: bytes) -> bytes:
    """Sends a request with a header of version 2, and returns the response after its tagged fields."""
    connection.send(frame(struct.pack(">hhi", key, version, 1) + string("raw") + _NO_TAGS + body))
    answer = connection.receive()[1]
    assert answer[:1] == _NO_TAGS
    return answer[1:]


def _compact_size(count: int) -> bytes:
    """Encodes the size of a compact array, string or bytes."""
    count += 1
    encoded = bytearray()
    while count > 0x7F:
        encoded.append(count & 0x7F | 0x80)
        count >>= 7
    encoded.append(count)
    return bytes(encoded)


def _compact(text: str) -> bytes:
    return _compact_size(len(text)) + text.encode()

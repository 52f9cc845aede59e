"""Encodes and decodes the records of `__transaction_state` in Kafka's own format.

Kafka's tools can therefore read our records, and we can read Kafka's. A key is two bytes of record type and a message.
A value is two bytes of message version and a message. A record without a value is a tombstone: it deletes its key. What
we write has the same bytes as what Apache Kafka 4.3 writes.
"""

import struct

import msgspec

from tailrace.protocol.codec.compile import decoder, encode_whole
from tailrace.protocol.codec.primitives import Buffer, run_packer, uvarint
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue

from .transaction_status import STORED_STATES

_KEY_VERSION = 0
_VALUE_VERSION = 1
"""The version of the value that we write: the flexible one, with the previous and the next producer id."""
_VALUES_READ = range(2)

NONE = -1
_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
_TAGGED_ID = struct.Struct(">BBq")
_TAGGED_VERSION = struct.Struct(">BBh")
_pack_numbers = run_packer("i")


class TransactionRecord(msgspec.Struct, frozen=True):
    key: TransactionLogKey
    value: TransactionLogValue | None
    """None for a tombstone."""


def barrier_record() -> TransactionRecord:
    """Returns a record without effect: the tombstone of the empty transactional id, which no producer can have."""
    return TransactionRecord(TransactionLogKey(""), None)


def encode_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    key = record.key.RECORD_TYPE.to_bytes(2) + encode_whole(record.key, _KEY_VERSION)
    if record.value is None:
        return key, None
    return key, _encode_value(record.value)


def _encode_value(value: TransactionLogValue) -> bytes:
    """Encodes a value several times faster than the general encoder does, because each transaction has three."""
    if value.next_producer_epoch != NONE:
        return _VALUE_VERSION.to_bytes(2) + encode_whole(value, _VALUE_VERSION)
    parts = [
        _HEAD.pack(
            _VALUE_VERSION,
            value.producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            value.transaction_status,
        )
    ]
    if value.transaction_partitions is None:
        parts.append(b"\0")
    else:
        parts.append(uvarint(len(value.transaction_partitions) + 1))
        for topic in value.transaction_partitions:
            name, numbers = topic.topic.encode(), topic.partition_ids
            parts += (uvarint(len(name) + 1), name, uvarint(len(numbers) + 1), _pack_numbers(numbers), b"\0")
    parts.append(_TIMES.pack(value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms))
    tagged = []
    if value.previous_producer_id != NONE:
        tagged.append(_TAGGED_ID.pack(0, 8, value.previous_producer_id))
    if value.next_producer_id != NONE:
        tagged.append(_TAGGED_ID.pack(1, 8, value.next_producer_id))
    if value.client_transaction_version:
        tagged.append(_TAGGED_VERSION.pack(2, 2, value.client_transaction_version))
    return b"".join((*parts, uvarint(len(tagged)), *tagged))


def decode_record(key: Buffer | None, value: Buffer | None) -> TransactionRecord | None:
    """Decodes a record. Returns None for a type of record that we do not know.

    Raises KafkaError (CORRUPT_MESSAGE) and no other error.
    """
    if key is None or len(key) < 2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record of __transaction_state has no key")
    if int.from_bytes(key[:2]) != TransactionLogKey.RECORD_TYPE:
        return None
    try:
        decoded, _ = decoder(TransactionLogKey, _KEY_VERSION)(memoryview(key), 2)
        return TransactionRecord(decoded, None if value is None else _decode_value(value))
    except RemoteProtocolError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record of __transaction_state is corrupt: {error}") from None


def _decode_value(value: Buffer) -> TransactionLogValue:
    version = int.from_bytes(value[:2])
    if len(value) < 2 or version not in _VALUES_READ:
        raise RemoteProtocolError(f"TransactionLogValue has no version {version}")
    decoded: TransactionLogValue
    decoded, _ = decoder(TransactionLogValue, version)(memoryview(value), 2)
    if decoded.transaction_status not in STORED_STATES:
        raise RemoteProtocolError(f"no transaction is stored with the state {decoded.transaction_status}")
    if decoded.producer_id < 0 or decoded.producer_epoch < 0:
        raise RemoteProtocolError("a stored transaction has no producer")
    return decoded

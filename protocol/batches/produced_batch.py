"""Checks the batch that a producer sent for one partition, and makes it what the topic's config wants.

docs/produce_validation.md says which fault gets which error, what Apache Kafka does, and why we differ.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from crc32c import crc32c
from msgspec import Struct

from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.codec.untouched_memory import given_back
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.steps import finish

from .compression import (
    DECOMPRESSED_BYTES_MAX,
    Compression,
    TooLargeError,
    compress,
    decompress,
    decompress_in_steps,
)
from .record_batch import (
    APPEND_TIME,
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    assemble,
    read_header,
    stamp_max_timestamp,
)
from .record_walk import ManyHeadersError, check_records, check_records_in_steps, times_and_keys
from .records import NO_TIMESTAMP

RECORDS_AT_ONCE = 10_000
"""How many records a batch may have to be checked in one go. librdkafka's batches have at most as many by default."""
DECOMPRESSED_AT_ONCE = 2**20
"""The decompressed size up to which a batch is checked in one go."""
ZSTD_FROM_VERSION = 7
NEVER = 2**63 - 1

_NOT_FOR_PRODUCERS = CONTROL | DELETE_HORIZON | APPEND_TIME
_LENGTH_POSITION = 8
_LENGTH_MIN = 14
"""The smallest length of a batch of any magic."""
_REFUSED_NAMED_MAX = 1000
_DECOMPRESSED_RATIO_MAX = 32
_DECOMPRESSED_BYTES_MIN = 16 * 2**20
_RECORD_BYTES_MIN = 7
"""The size of the smallest record: without time, key, value and headers."""
_TIMES_PER_STEP = 2_000
_RECORDS_EXPECTED = 100_000
"""How many records any batch may have, even if batches of the topic are small."""


class RecordsRefusedError(KafkaError):
    """Some records are at fault. All are refused, but the client can send the others again."""

    def __init__(self, code: ErrorCode, message: str, refused: Iterable[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.refused = list(islice(refused, _REFUSED_NAMED_MAX))
        """The numbers of the first records at fault, with the reason for each."""


class HeavyBatchError(KafkaError):
    """The batch is right as far as its header tells, but `admit_in_steps` has to check the rest."""

    def __init__(self, header: BatchHeader) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, "the batch has to be checked in steps")
        self.header = header


class ProduceRules(Struct, frozen=True):
    """The rules of a topic's config for batches. They are made when the config changes."""

    batch_bytes_max: int
    needs_keys: bool = False
    """Whether every record needs a key, because the topic is compacted."""
    append_time: bool = False
    timestamp_before_ms_max: int = NEVER
    timestamp_after_ms_max: int = NEVER
    compression: Compression | None = None
    """How batches are compressed; None leaves the compression of the producer."""
    compression_level: int | None = None
    opens_compressed: bool = True
    """Whether compressed batches are decompressed and their records checked. Without it, consumers find a corrupt
    batch."""

    @property
    def must_open(self) -> bool:
        """Whether the records of compressed batches have to be read as well."""
        return (
            self.opens_compressed
            or self.needs_keys
            or self.compression is not None
            or (self.timestamp_before_ms_max != NEVER and not self.append_time)
        )

    @property
    def decompressed_bytes_max(self) -> int:
        """The largest decompressed size. A producer compresses about as much as it may send; a thousand times as much
        is an attack."""
        return min(max(_DECOMPRESSED_RATIO_MAX * self.batch_bytes_max, _DECOMPRESSED_BYTES_MIN), DECOMPRESSED_BYTES_MAX)

    @property
    def records_max(self) -> int:
        """How many records a compressed batch may have: as many as have room without compression.

        Each record is checked, so that a few kilobytes that become millions of tiny records would hold up all others.
        """
        return max(_RECORDS_EXPECTED, self.batch_bytes_max // _RECORD_BYTES_MIN)


def admit(records: Buffer | None, rules: ProduceRules, *, api_version: int, now_ms: int) -> tuple[Buffer, BatchHeader]:
    """Returns the one batch that was sent, ready to be stamped with its offset and append time, and its header.

    The batch is a part of `records`, unless the topic wants another compression. Raises KafkaError, and HeavyBatchError
    if checking the batch takes so long that others have to be served in between. If the caller refuses the batch for
    another reason, the same batch may be checked again.
    """
    # A call that hardly any batch needs is not made here: a small batch is checked in the time of a dozen calls.
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
        raise _no_batch(records)
    header = read_header(records)
    size = header.batch_length + LOG_OVERHEAD
    if size != len(records):
        _check_alone(size, records)
    attributes = header.attributes
    kind = attributes & COMPRESSION_MASK
    if kind:
        _check_compression(kind, api_version)
    if header.base_offset != 0:
        raise _invalid(f"the batch starts at offset {header.base_offset}, not 0")
    if size > rules.batch_bytes_max:
        raise _too_large(size, rules)
    batch = records if type(records) is memoryview else memoryview(records)
    if size != len(batch):
        batch = batch[:size]
    if crc32c(batch[CRC_START:]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch's checksum does not match")
    count = header.record_count
    if count < 1 or header.last_offset_delta != count - 1:
        raise _invalid(f"the batch has {count} records, but a last offset delta of {header.last_offset_delta}")
    if attributes & _NOT_FOR_PRODUCERS:
        raise _not_for_producers(attributes)
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(f"the batch has a producer id, but the sequence number {header.base_sequence}")

    body: Buffer = batch[HEADER_SIZE:]
    if not kind or rules.must_open:
        if count > RECORDS_AT_ONCE:
            if kind:
                _check_count(count, rules)
            raise HeavyBatchError(header)
        if kind:
            body = _decompress(kind, body, header)
        try:
            keyed = check_records(body, count)
        except ManyHeadersError:
            raise HeavyBatchError(header) from None
        if not keyed and rules.needs_keys:
            raise finish(_without_keys(body))
        if not rules.append_time and (
            header.max_timestamp < header.base_timestamp
            or header.max_timestamp > now_ms + rules.timestamp_after_ms_max
            or rules.timestamp_before_ms_max != NEVER
        ):
            finish(_check_timestamps(batch, header, body, rules, now_ms))
    if rules.compression is not None and rules.compression != kind:
        return _recompressed(header, body, rules)
    return batch, header


def admit_in_steps(
    records: Buffer, header: BatchHeader, rules: ProduceRules, *, now_ms: int
) -> Generator[None, None, tuple[Buffer, BatchHeader]]:
    """Checks the rest of a heavy batch and returns what `admit` returns. Yields after each step of about a millisecond.

    `header` comes with the HeavyBatchError. The same records may meanwhile be in another buffer. Raises KafkaError.
    """
    batch = memoryview(records)[: header.size]
    kind = header.attributes & COMPRESSION_MASK
    if not kind:
        return (yield from _admit_body(batch, header, bytes(batch[HEADER_SIZE:]), rules, now_ms))
    with _decompression_errors():
        packed = batch[HEADER_SIZE:]
        body = yield from decompress_in_steps(Compression(kind), packed, rules.decompressed_bytes_max)
    try:
        kept = yield from _admit_body(batch, header, body, rules, now_ms)
    except KafkaError:
        yield from given_back(body)
        raise
    yield from given_back(body)
    return kept


def _admit_body(
    batch: Buffer, header: BatchHeader, body: Buffer, rules: ProduceRules, now_ms: int
) -> Generator[None, None, tuple[Buffer, BatchHeader]]:
    keyed = yield from check_records_in_steps(body, header.record_count)
    if not keyed and rules.needs_keys:
        raise (yield from _without_keys(body))
    if not rules.append_time:
        yield from _check_timestamps(batch, header, body, rules, now_ms)
    if rules.compression is not None and rules.compression != header.attributes & COMPRESSION_MASK:
        return _recompressed(header, body, rules)
    return batch, header


def _no_batch(records: Buffer | None) -> KafkaError:
    """Says what is wrong with data that does not begin with a batch of the current format."""
    if records is not None:
        _starts_batch(records)  # raises a more exact error if the data has one
    return _invalid("no whole batch was sent")


def _check_alone(size: int, records: Buffer) -> None:
    """Raises KafkaError unless there is one whole batch. A second, incomplete batch is ignored, as in Kafka."""
    if size > len(records):
        raise _invalid(f"the batch has {size} bytes, but {len(records)} bytes were sent")
    rest = memoryview(records)[size:]
    if _starts_batch(rest) and LOG_OVERHEAD + _length(rest) <= len(rest):
        raise _invalid("more than one batch was sent for a partition")


def _starts_batch(records: Buffer) -> bool:
    """Whether the data begins with a batch header of the current format. Raises KafkaError if it begins with another
    one."""
    if len(records) >= HEADER_SIZE and records[MAGIC_AT] == MAGIC:
        return True
    if len(records) > LOG_OVERHEAD and _length(records) < _LENGTH_MIN:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have the length {_length(records)}")
    if len(records) <= MAGIC_AT:
        return False
    magic = records[MAGIC_AT]
    if magic != MAGIC:
        if magic > MAGIC:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch has the unknown magic {magic}")
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"the batch has the old magic {magic}")
    return False


def _length(records: Buffer) -> int:
    return int.from_bytes(records[_LENGTH_POSITION : _LENGTH_POSITION + 4], "big", signed=True)


def _check_compression(kind: int, api_version: int) -> None:
    if kind > Compression.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {kind} is not known")
    if kind == Compression.ZSTD and api_version < ZSTD_FROM_VERSION:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce version {ZSTD_FROM_VERSION}")


def _decompress(kind: int, body: Buffer, header: BatchHeader) -> bytes:
    try:
        return decompress(Compression(kind), body, DECOMPRESSED_AT_ONCE)
    except TooLargeError:  # any topic allows more
        raise HeavyBatchError(header) from None
    except ValueError as error:
        raise _cannot_decompress(error) from None


@contextmanager
def _decompression_errors() -> Iterator[None]:
    try:
        yield
    except TooLargeError as error:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except ValueError as error:
        raise _cannot_decompress(error) from None


def _cannot_decompress(error: ValueError) -> KafkaError:
    return _invalid(f"the records cannot be decompressed: {error}")


def _check_timestamps(
    batch: Buffer, header: BatchHeader, body: Buffer, rules: ProduceRules, now_ms: int
) -> Generator[None, None, None]:
    """Raises KafkaError if records are too old or too new. The newest time is taken from the header; every record is
    read only if old ones are limited, or the header is wrong."""
    oldest = now_ms - rules.timestamp_before_ms_max
    newest = now_ms + rules.timestamp_after_ms_max
    if header.max_timestamp < header.base_timestamp or oldest > 0:
        largest, is_too_old = -NEVER - 1, False
        for number, timestamp in enumerate(_timestamps(header, body), 1):
            if timestamp > largest:
                largest = timestamp
            if timestamp < oldest and timestamp != NO_TIMESTAMP:
                is_too_old = True
            if not number % _TIMES_PER_STEP:
                yield
        if largest != header.max_timestamp:
            # Searches by time and retention rely on this field. Kafka corrects it as well.
            header.max_timestamp = largest
            header.crc = stamp_max_timestamp(batch, 0, header.size, largest)
        if is_too_old:
            raise (yield from _bad_timestamps(header, body, oldest, newest))
    if header.max_timestamp > newest:
        raise (yield from _bad_timestamps(header, body, oldest, newest))


def _bad_timestamps(
    header: BatchHeader, body: Buffer, oldest: int, newest: int
) -> Generator[None, None, RecordsRefusedError]:
    refused = []
    for number, timestamp in enumerate(_timestamps(header, body)):
        if timestamp > newest or (timestamp < oldest and timestamp != NO_TIMESTAMP):
            refused.append((number, f"timestamp {timestamp} is not between {max(oldest, 0)} and {newest}"))
            if len(refused) == _REFUSED_NAMED_MAX:
                break
        if not (number + 1) % _TIMES_PER_STEP:
            yield
    message = (
        refused[0][1] if refused else f"the header's newest timestamp {header.max_timestamp} is more than {newest}"
    )
    return RecordsRefusedError(ErrorCode.INVALID_TIMESTAMP, message, refused)


def _without_keys(body: Buffer) -> Generator[None, None, RecordsRefusedError]:
    why = "a record has no key, in a compacted topic"
    refused = []
    for number, (_, has_key) in enumerate(times_and_keys(_contiguous(body))):
        if not has_key:
            refused.append((number, why))
            if len(refused) == _REFUSED_NAMED_MAX:
                break
        if not (number + 1) % _TIMES_PER_STEP:
            yield
    return RecordsRefusedError(ErrorCode.INVALID_RECORD, why, refused)


def _timestamps(header: BatchHeader, body: Buffer) -> Iterator[int]:
    """Returns the timestamps of all records in a checked body."""
    return (header.timestamp_at(delta) for delta, _ in times_and_keys(_contiguous(body)))


def _contiguous(body: Buffer) -> Buffer:
    """Returns the body in a form whose bytes are read faster than those of a memoryview, unless it is large.

    The gain is small. A copy of many megabytes would hold up other clients.
    """
    return bytes(body) if isinstance(body, memoryview) and len(body) <= DECOMPRESSED_AT_ONCE else body


def _recompressed(header: BatchHeader, body: Buffer, rules: ProduceRules) -> tuple[Buffer, BatchHeader]:
    compression = rules.compression
    assert compression is not None
    header.attributes = header.attributes & ~COMPRESSION_MASK | compression
    batch = assemble(header, compress(compression, body, rules.compression_level))
    if len(batch) > rules.batch_bytes_max:
        raise _too_large(len(batch), rules)
    return batch, header


def _not_for_producers(attributes: int) -> KafkaError:
    if attributes & CONTROL:
        return _invalid("only brokers write control batches")
    if attributes & DELETE_HORIZON:
        return _invalid("only compaction sets a delete horizon")
    return KafkaError(ErrorCode.INVALID_TIMESTAMP, "only brokers set append times")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, why)


def _too_large(size: int, rules: ProduceRules) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch has {size} bytes; at most {rules.batch_bytes_max} are allowed: see max.message.bytes",
    )


def _check_count(count: int, rules: ProduceRules) -> None:
    """Raises KafkaError if a compressed batch cannot have so many records, or must not."""
    if count * _RECORD_BYTES_MIN > rules.decompressed_bytes_max:
        raise _invalid(f"the batch cannot have {count} records")
    if count > rules.records_max:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,  # Java's producers divide it, see docs/produce_validation.md
            f"the batch has {count} records; at most {rules.records_max} are allowed: see max.message.bytes",
        )

"""The faults and errors of docs/produce_validation.md."""

import contextlib
import tracemalloc
from random import Random
from struct import pack_into

import pytest

from tailrace.protocol.batches.compression import Compression, compress
from tailrace.protocol.batches.produced_batch import (
    DECOMPRESSED_AT_ONCE,
    NEVER,
    RECORDS_AT_ONCE,
    HeavyBatchError,
    ProduceRules,
    RecordsRefusedError,
    admit_in_steps,
)
from tailrace.protocol.batches.produced_batch import admit as admit_at_once
from tailrace.protocol.batches.record_batch import BatchHeader, assemble, crc_of, read_header, stamp_crc
from tailrace.protocol.batches.records import Record, build_batch, encode_records, read_records
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.steps import finish

NOW = 1_700_000_000_000
RULES = ProduceRules(2**20, timestamp_after_ms_max=3_600_000)
PACKINGS = pytest.mark.parametrize("compression", Compression)


def admit(records: Buffer | None, rules: ProduceRules, *, api_version: int, now_ms: int) -> tuple[Buffer, BatchHeader]:
    """Checks a batch in one go or, if it is heavy, in steps."""
    try:
        return admit_at_once(records, rules, api_version=api_version, now_ms=now_ms)
    except HeavyBatchError as heavy:
        assert records is not None
        return finish(admit_in_steps(records, heavy.header, rules, now_ms=now_ms))


def some_records(count: int = 3, *, key: bytes | None = b"k", timestamp: int = NOW) -> list[Record]:
    return [Record(number, timestamp, key, b"value") for number in range(count)]


def good(compression: Compression = Compression.NONE) -> bytearray:
    return build_batch(some_records(), compression=compression)


def patched(layout: str, position: int, value: int, *, right_crc: bool = True) -> bytearray:
    batch = good()
    pack_into(layout, batch, position, value)
    if right_crc:
        stamp_crc(batch, 0, len(batch))
    return batch


def with_body(
    body: bytes, count: int, *, last: int | None = None, compression: Compression = Compression.NONE
) -> bytearray:
    last = count - 1 if last is None else last
    header = BatchHeader(0, 0, -1, 2, 0, compression, last, NOW, NOW, -1, -1, -1, count)
    return assemble(header, compress(compression, body))


def admitted(records: bytes | bytearray | memoryview | None, rules: ProduceRules = RULES, version: int = 9) -> bytes:
    batch, header = admit(records, rules, api_version=version, now_ms=NOW)
    assert header == read_header(batch)
    assert header.size == len(batch)
    assert header.crc == crc_of(batch, 0, len(batch))
    return bytes(batch)


def refused(records: bytes | bytearray | None, rules: ProduceRules = RULES, version: int = 9) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        admit(records, rules, api_version=version, now_ms=NOW)
    return error.value.code


@PACKINGS
def test_a_good_batch_is_returned_unchanged(compression: Compression) -> None:
    batch = good(compression)
    assert admitted(memoryview(batch)) == batch
    view, _ = admit(memoryview(batch), RULES, api_version=9, now_ms=NOW)
    pack_into(">q", view, 0, 77)
    assert read_header(batch).base_offset == 77, "the batch that was sent is the one that is stored"


@pytest.mark.parametrize(
    ("layout", "position", "value", "code"),
    [
        (">q", 0, 77, ErrorCode.INVALID_RECORD),
        (">q", 0, -1, ErrorCode.INVALID_RECORD),
        (">i", 8, -5, ErrorCode.CORRUPT_MESSAGE),
        (">i", 8, 0, ErrorCode.CORRUPT_MESSAGE),
        (">i", 8, 14, ErrorCode.CORRUPT_MESSAGE),
        (">i", 8, 48, ErrorCode.CORRUPT_MESSAGE),
        (">i", 8, 2**31 - 1, ErrorCode.INVALID_RECORD),
        (">i", 8, len(good()) - 12 + 1, ErrorCode.INVALID_RECORD),
        (">b", 16, 3, ErrorCode.CORRUPT_MESSAGE),
        (">b", 16, -1, ErrorCode.CORRUPT_MESSAGE),
        (">b", 16, 1, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (">b", 16, 0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (">h", 21, 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (">h", 21, 7, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (">h", 21, 0x08, ErrorCode.INVALID_TIMESTAMP),
        (">h", 21, 0x20, ErrorCode.INVALID_RECORD),
        (">h", 21, 0x40, ErrorCode.INVALID_RECORD),
        (">i", 23, 5, ErrorCode.INVALID_RECORD),
        (">i", 23, -1, ErrorCode.INVALID_RECORD),
        (">q", 43, 5, ErrorCode.INVALID_RECORD),
        (">i", 57, 2, ErrorCode.INVALID_RECORD),
        (">i", 57, 0, ErrorCode.INVALID_RECORD),
        (">i", 57, -1, ErrorCode.INVALID_RECORD),
    ],
)
def test_faults_of_the_header_are_refused(layout: str, position: int, value: int, code: ErrorCode) -> None:
    assert refused(patched(layout, position, value)) is code


@pytest.mark.parametrize(("layout", "position", "value"), [(">i", 12, 5), (">h", 21, 0x80), (">q", 43, -2)])
def test_fields_that_may_have_any_value(layout: str, position: int, value: int) -> None:
    batch = patched(layout, position, value)
    assert admitted(batch) == batch


def test_a_wrong_checksum_is_corrupt() -> None:
    assert refused(patched(">I", 17, 12345, right_crc=False)) is ErrorCode.CORRUPT_MESSAGE


def test_exactly_one_whole_batch_is_accepted() -> None:
    assert refused(None) is ErrorCode.INVALID_RECORD
    for size in range(len(good())):
        assert refused(good()[:size]) is ErrorCode.INVALID_RECORD
    assert refused(good() + good()) is ErrorCode.INVALID_RECORD
    assert refused(good() + bytes(100)) is ErrorCode.CORRUPT_MESSAGE
    assert refused(good() + b"\xff" * 100) is ErrorCode.CORRUPT_MESSAGE
    for size in (1, 5, 17, len(good()) - 1):
        assert admitted(good() + good()[:size]) == good(), "an unfinished second batch is passed over"


@PACKINGS
@pytest.mark.parametrize(
    ("count", "last"), [(2, 1), (4, 3), (2, 2), (4, 2), (3, 1), (3, 5), (-1, -2), (0, 0), (2**31 - 1, 2**31 - 2)]
)
def test_the_count_is_that_of_the_records(compression: Compression, count: int, last: int) -> None:
    body = bytes(encode_records(some_records(), 0, NOW))
    assert refused(with_body(body, count, last=last, compression=compression)) is ErrorCode.INVALID_RECORD


@PACKINGS
def test_a_batch_has_at_least_one_record(compression: Compression) -> None:
    assert refused(with_body(b"", 0, last=-1, compression=compression)) is ErrorCode.INVALID_RECORD
    assert refused(with_body(b"", 0, last=0, compression=compression)) is ErrorCode.INVALID_RECORD


@PACKINGS
def test_records_must_be_well_formed(compression: Compression) -> None:
    """Shows that the record walk is used; its own tests have the single faults."""
    body = bytes(encode_records(some_records(), 0, NOW))
    for spoilt in (b"", body + b"junk", body[:-1], b"\x01" + body[1:]):
        assert refused(with_body(spoilt, 3, compression=compression)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_records_that_cannot_be_decompressed_are_invalid(compression: Compression) -> None:
    header = BatchHeader(0, 0, -1, 2, 0, compression, 2, NOW, NOW, -1, -1, -1, 3)
    body = bytes(encode_records(some_records(), 0, NOW))
    assert refused(assemble(header, body)) is ErrorCode.INVALID_RECORD
    assert refused(assemble(header, b"")) is ErrorCode.INVALID_RECORD
    closed = ProduceRules(2**20, opens_compressed=False)
    assert admitted(assemble(header, body), closed) == assemble(header, body), "whoever asks for it is not told"


def test_a_decompression_bomb_is_too_large() -> None:
    bomb = with_body(bytes(16 * 2**20 + 1), 1, compression=Compression.GZIP)
    assert refused(bomb, ProduceRules(100_000)) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_small_batch_may_not_become_millions_of_records() -> None:
    """It is refused for its header alone: nothing is decompressed or checked."""
    limit = 2**20 // 7
    body = b"\x0e\0\0\0\1\1\0\0"
    assert refused(with_body(body, limit + 1, compression=Compression.GZIP)) is ErrorCode.MESSAGE_TOO_LARGE
    assert refused(with_body(body, limit, compression=Compression.GZIP)) is ErrorCode.INVALID_RECORD
    small = ProduceRules(1000)
    assert refused(with_body(body, 100_001, compression=Compression.GZIP), small) is ErrorCode.MESSAGE_TOO_LARGE
    assert refused(with_body(body, 100_000, compression=Compression.GZIP), small) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("size", [2**20, 2 * 2**20])
def test_a_batch_may_have_as_many_records_as_have_room_without_compression(size: int) -> None:
    records = [Record(number, NOW, None, None) for number in range(2**20 // 10)]
    assert len(build_batch(records)) <= size
    for compression in (Compression.NONE, Compression.ZSTD):
        batch = build_batch(records, compression=compression)
        assert admitted(batch, ProduceRules(size)) == batch


def test_the_size_of_a_batch_is_limited() -> None:
    batch = good()
    assert admitted(batch, ProduceRules(len(batch))) == batch
    assert refused(batch, ProduceRules(len(batch) - 1)) is ErrorCode.MESSAGE_TOO_LARGE


def test_early_versions_do_not_have_zstd() -> None:
    assert refused(good(Compression.ZSTD), version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert admitted(good(Compression.ZSTD), version=7) == good(Compression.ZSTD)


@PACKINGS
def test_a_compacted_topic_needs_keys(compression: Compression) -> None:
    rules = ProduceRules(2**20, needs_keys=True, opens_compressed=False)
    records = some_records()
    assert admitted(build_batch(records, compression=compression), rules)
    records[1].key = b""
    assert admitted(build_batch(records, compression=compression), rules)
    records[1].key = None
    assert refused(build_batch(records, compression=compression), rules) is ErrorCode.INVALID_RECORD
    assert admitted(build_batch(records, compression=compression))


def refused_records(batch: bytes | bytearray, rules: ProduceRules) -> list[int]:
    with pytest.raises(RecordsRefusedError) as error:
        admit(batch, rules, api_version=9, now_ms=NOW)
    assert all(why for _, why in error.value.refused)
    return [number for number, _ in error.value.refused]


@PACKINGS
def test_the_records_at_fault_are_named(compression: Compression) -> None:
    rules = ProduceRules(2**20, needs_keys=True, timestamp_before_ms_max=1000, timestamp_after_ms_max=1000)
    records = some_records(5)
    records[1].key = records[3].key = None
    assert refused_records(build_batch(records, compression=compression), rules) == [1, 3]
    records = some_records(5)
    records[0].timestamp, records[4].timestamp = NOW - 1001, NOW + 1001
    assert refused_records(build_batch(records, compression=compression), rules) == [0, 4]


def test_a_header_that_lies_about_the_newest_timestamp_names_none() -> None:
    rules = ProduceRules(2**20, timestamp_after_ms_max=1000)
    assert refused_records(patched(">q", 35, NOW + 1001), rules) == []


def test_the_number_of_named_records_is_bounded() -> None:
    records = [Record(number, NOW, None, b"") for number in range(5000)]
    assert refused_records(build_batch(records), ProduceRules(2**20, needs_keys=True)) == list(range(1000))


@PACKINGS
def test_timestamps_stay_in_bounds(compression: Compression) -> None:
    rules = ProduceRules(2**20, timestamp_before_ms_max=1000, timestamp_after_ms_max=1000, opens_compressed=False)
    for timestamp, is_good in ((NOW - 1000, True), (NOW - 1001, False), (NOW + 1000, True), (NOW + 1001, False)):
        batch = build_batch(some_records(timestamp=timestamp), compression=compression)
        if is_good:
            assert admitted(batch, rules) == batch
        else:
            assert refused(batch, rules) is ErrorCode.INVALID_TIMESTAMP
    records = some_records()
    records[1].timestamp = NOW - 1001
    assert refused(build_batch(records, compression=compression), rules) is ErrorCode.INVALID_TIMESTAMP
    assert admitted(build_batch(some_records(timestamp=-1), compression=compression), rules)


def test_an_impossible_newest_timestamp_is_corrected() -> None:
    batch = patched(">q", 35, 5)
    assert read_header(admitted(batch)).max_timestamp == NOW


@pytest.mark.parametrize("fault", ["newest", "old", "no key"])
def test_many_records_are_not_held_one_by_one(fault: str) -> None:
    """A batch of a few kilobytes may have a million records."""
    count = 50_000
    batch = with_body(bytes(encode_records(some_records(count, key=None), 0, NOW)), count)
    pack_into(">q", batch, 35, NOW - 1 if fault == "newest" else NOW)
    stamp_crc(batch, 0, len(batch))
    rules = ProduceRules(2**30, needs_keys=fault == "no key", timestamp_before_ms_max=-1 if fault == "old" else NEVER)
    tracemalloc.start()
    try:
        with contextlib.suppress(RecordsRefusedError):
            admit(batch, rules, api_version=9, now_ms=NOW)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(batch)
    finally:
        tracemalloc.stop()


def test_a_batch_that_gets_an_append_time_may_have_any_other_time_before() -> None:
    rules = ProduceRules(2**20, append_time=True, timestamp_before_ms_max=1)
    batch = build_batch(some_records(timestamp=5))
    assert admitted(batch, rules) == batch


@PACKINGS
@pytest.mark.parametrize("target", Compression)
def test_compressed_as_the_topic_wants_it(compression: Compression, target: Compression) -> None:
    rules = ProduceRules(2**20, compression=target)
    batch = build_batch(some_records(50), compression=compression, producer_id=7, producer_epoch=1, base_sequence=3)
    result = admitted(batch, rules)
    assert read_header(result).compression is target
    assert read_header(result).base_sequence == 3
    assert read_records(result) == some_records(50)
    if compression is target:
        assert result == batch


def test_a_recompressed_batch_must_not_exceed_the_limit() -> None:
    packed = build_batch([Record(0, NOW, None, bytes(5000))], compression=Compression.ZSTD)
    rules = ProduceRules(1000, compression=Compression.NONE)
    assert refused(packed, rules) is ErrorCode.MESSAGE_TOO_LARGE


@PACKINGS
def test_a_corrupt_batch_gets_an_error_and_nothing_else(compression: Compression) -> None:
    random = Random(5)
    rules = ProduceRules(2**20, timestamp_before_ms_max=1000, compression=Compression.ZSTD)
    batch = good(compression)
    for number in range(2000):
        spoilt = bytearray(batch)
        for _ in range(random.randint(1, 4)):
            spoilt[random.randrange(8, len(spoilt))] = random.randrange(256)
        if number % 4:
            stamp_crc(spoilt, 0, len(spoilt))
        with contextlib.suppress(KafkaError):
            admit(
                spoilt[: random.choice((len(spoilt), random.randrange(len(spoilt))))], rules, api_version=9, now_ms=NOW
            )


# heavy batches


def header_of_heavy(batch: Buffer, rules: ProduceRules = RULES) -> BatchHeader:
    with pytest.raises(HeavyBatchError) as heavy:
        admit_at_once(batch, rules, api_version=9, now_ms=NOW)
    return heavy.value.header


def steps_of(batch: Buffer, rules: ProduceRules = RULES) -> int:
    return sum(1 for _ in admit_in_steps(batch, header_of_heavy(batch), rules, now_ms=NOW))


@PACKINGS
def test_many_records_are_checked_in_steps(compression: Compression) -> None:
    count = RECORDS_AT_ONCE + 1
    batch = build_batch(some_records(count), compression=compression)
    assert steps_of(batch) >= count // 500
    assert admitted(batch) == batch
    at_once, _ = admit_at_once(build_batch(some_records(count - 1)), RULES, api_version=9, now_ms=NOW)
    assert read_header(at_once).record_count == count - 1


@pytest.mark.parametrize("compression", [kind for kind in Compression if kind])
def test_much_decompressed_data_is_checked_in_steps(compression: Compression) -> None:
    large = bytes(encode_records([Record(0, NOW, None, bytes(2 * DECOMPRESSED_AT_ONCE))], 0, NOW))
    batch = with_body(large, 1, compression=compression)
    assert steps_of(batch) > 4
    assert admitted(batch) == batch
    small = bytes(encode_records([Record(0, NOW, None, bytes(DECOMPRESSED_AT_ONCE - 100))], 0, NOW))
    admit_at_once(with_body(small, 1, compression=compression), RULES, api_version=9, now_ms=NOW)


@pytest.mark.parametrize("is_valid", [True, False])
def test_the_memory_of_decompressed_data_is_given_back_in_steps(is_valid: bool) -> None:
    """Each number of steps is larger than that of the checks alone."""
    large = bytes(encode_records([Record(0, NOW, None, bytes(2 * DECOMPRESSED_AT_ONCE))], 0, NOW))
    batch = with_body(large if is_valid else large + b"x", 1, compression=Compression.SNAPPY)
    rules = ProduceRules(4 * 2**20)  # it sets aside more than four steps give back
    steps = admit_in_steps(batch, header_of_heavy(batch), rules, now_ms=NOW)
    taken = 0
    with pytest.raises((StopIteration, KafkaError)):
        while True:
            next(steps)
            taken += 1
    assert taken > rules.decompressed_bytes_max // 2**22


def test_what_is_read_in_steps_is_not_copied_as_a_whole() -> None:
    value = bytes(20 * DECOMPRESSED_AT_ONCE)
    large = bytes(encode_records([Record(0, NOW, None, value)], 0, NOW))
    batch = with_body(large, 1, compression=Compression.GZIP)
    header = header_of_heavy(batch)
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError, match="a record has no key"):
            finish(admit_in_steps(batch, header, ProduceRules(2**20, needs_keys=True), now_ms=NOW))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(value) / 4


def test_many_headers_are_checked_in_steps() -> None:
    records = [Record(number, NOW, None, b"", [("", None)] * 20_000) for number in range(2)]
    batch = build_batch(records)
    assert steps_of(batch) >= 20
    assert admitted(batch) == batch


def test_an_error_of_a_heavy_batch_is_that_of_a_small_one() -> None:
    count = RECORDS_AT_ONCE + 1
    assert refused(build_batch(some_records(count, key=None)), ProduceRules(2**20, needs_keys=True)) == (
        ErrorCode.INVALID_RECORD
    )
    old = ProduceRules(2**20, timestamp_before_ms_max=1000)
    assert refused(build_batch(some_records(count, timestamp=NOW - 1001)), old) == ErrorCode.INVALID_TIMESTAMP
    body = encode_records(some_records(count), 0, NOW)
    assert refused(with_body(bytes(body[:-1]), count)) == ErrorCode.INVALID_RECORD
    assert refused(with_body(bytes(body) + b"x", count)) == ErrorCode.INVALID_RECORD


def test_a_heavy_batch_is_compressed_as_the_topic_wants() -> None:
    batch = build_batch(some_records(RECORDS_AT_ONCE + 1))
    kept = admitted(batch, ProduceRules(2**20, compression=Compression.ZSTD))
    assert read_header(kept).compression is Compression.ZSTD
    assert list(read_records(kept)) == list(read_records(batch))


def test_a_heavy_batch_may_lie_in_another_buffer_when_it_is_checked() -> None:
    batch = build_batch(some_records(RECORDS_AT_ONCE + 1))
    header = header_of_heavy(batch)
    moved = bytearray(batch)
    batch[:] = bytes(len(batch))
    kept, _ = finish(admit_in_steps(moved, header, RULES, now_ms=NOW))
    assert kept == moved

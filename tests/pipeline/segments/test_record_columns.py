import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tailrace.pipeline.segments import record_columns
from tailrace.pipeline.segments.record_columns import RecordColumns, decode_bodies, decode_headers
from tailrace.protocol.batches.record_batch import HEADER_SIZE, BatchHeader, read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import KafkaError

_BYTES = st.none() | st.binary(max_size=200)
_RECORDS = st.lists(
    st.tuples(
        st.integers(-(2**61), 2**61),  # the difference of two must fit into the 64 bits that a record has for it
        _BYTES,
        _BYTES,
        st.lists(st.tuples(st.text(max_size=5), _BYTES), max_size=4),
    ),
    min_size=1,
    max_size=30,
)


def _batch(fields: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> bytearray:
    return build_batch([Record(offset, *each) for offset, each in enumerate(fields)])


def _body(batch: bytearray) -> tuple[BatchHeader, bytes]:
    return read_header(batch), bytes(batch[HEADER_SIZE:])


def _at(data: bytes, start: int, size: int) -> bytes | None:
    return None if size < 0 else data[start : start + size]


def _records(headers: list[BatchHeader], found: RecordColumns) -> list[Record]:
    tags = decode_headers(found, np.arange(len(found)))
    flat = [
        (
            (_at(found.data, tags.name_start[i], tags.name_size[i]) or b"").decode(errors="surrogateescape"),
            _at(found.data, tags.value_start[i], tags.value_size[i]),
        )
        for i in range(len(tags.name_start))
    ]
    result = []
    for i in range(len(found)):
        header = headers[found.batch[i]]
        own, flat = flat[: tags.count[i]], flat[tags.count[i] :]
        result.append(
            Record(
                header.base_offset + int(found.offset_delta[i]),
                header.timestamp_at(int(found.timestamp_delta[i])),
                _at(found.data, found.key_start[i], found.key_size[i]),
                _at(found.data, found.value_start[i], found.value_size[i]),
                own,
            )
        )
    return result


@pytest.mark.parametrize("together_min", [1, 3, 100])
@given(batches=st.lists(_RECORDS, max_size=5))
def test_columns_have_the_records_of_all_batches(together_min: int, batches: list) -> None:  # type: ignore[type-arg]
    bodies = [_body(_batch(fields)) for fields in batches]
    expected = [Record(offset, *each) for fields in batches for offset, each in enumerate(fields)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_columns, "_BATCHES_TOGETHER_MIN", together_min)
        found = decode_bodies(bodies)
    assert _records([header for header, _ in bodies], found) == expected


@pytest.mark.parametrize("size", [10, 100, 20_000])
def test_long_runs_of_records_of_equal_length_are_decoded(size: int) -> None:
    """A run ends where the number of the record takes another byte, and where a record of another length follows."""
    fields = [(0, None, bytes(size), []) for _ in range(300)] + [(0, b"key", b"other", [])]
    fields += [(5, b"k", bytes(size), [("a", b"1"), ("b", None)]) for _ in range(50)]
    header, body = _body(_batch(fields))
    expected = [Record(offset, *each) for offset, each in enumerate(fields)]
    assert _records([header], decode_bodies([(header, body)])) == expected


@pytest.mark.parametrize("together_min", [1, 100])
def test_a_corrupt_body_is_refused_and_never_decoded_beyond_its_end(
    together_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_columns, "_BATCHES_TOGETHER_MIN", together_min)
    fields = [(i, b"key-%d" % i, bytes(i * 7), [("h", b"1")] if i % 3 else []) for i in range(40)]
    header, body = _body(_batch(fields))
    chance = random.Random(1)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(body)
        damaged[chance.randrange(len(body))] = chance.randrange(256)
        try:
            found = decode_bodies([(header, bytes(damaged))])
            decode_headers(found, np.arange(len(found)))
        except KafkaError:
            refused += 1
        else:
            assert int((found.value_start + np.maximum(found.value_size, 0)).max()) <= len(body)
    assert refused > 60
    with pytest.raises(KafkaError, match="truncated"):
        decode_bodies([(header, body[:-1])])
    with pytest.raises(KafkaError, match="cannot have 40 records"):
        decode_bodies([(header, b"")])
    for count in (-1, 39, 41, 2**30):
        with pytest.raises(KafkaError):
            decode_bodies([(replace(header, record_count=count), body)])


def test_no_batches_have_no_records() -> None:
    found = decode_bodies([])
    assert len(found) == 0
    assert len(decode_headers(found, np.arange(0)).count) == 0

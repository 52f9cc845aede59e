import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.control_batches import hole
from tailrace.protocol.batches.record_batch import HEADER_SIZE, crc_of
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import KafkaError
from tailrace.trigger.work import Shard
from tailrace.trigger.worker.event import Event, TriggerInfo
from tailrace.trigger.worker.event_decoder import EventDecoder, open_batch

NOTHING = st.none() | st.binary(max_size=200)
NAMES = st.text(max_size=8)


class NoVerdicts:
    def acknowledge(self, event: Event) -> None: ...

    def fail(self, event: Event, reason: str) -> None: ...


def opened(batch: bytes | bytearray) -> EventDecoder:
    decoder = open_batch(bytes(batch), Shard("t", 0), TriggerInfo("kafka-cluster", "t"), NoVerdicts())
    assert decoder is not None
    return decoder


def all_events(decoder: EventDecoder, first: int = 0, end: int = 2**60, step: int = 3) -> list[Event]:
    events: list[Event] = []
    while more := decoder.next_events(step, first, end):
        events += more
    return events


def with_checksum(batch: bytearray) -> bytearray:
    batch[17:21] = crc_of(batch, 0, len(batch)).to_bytes(4, "big")
    return batch


@st.composite
def batches_of_records(draw: st.DrawFn) -> tuple[int, list[Record]]:
    offset = base = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.sampled_from((0, 1, 70, 9000, 3_000_000)))
        headers = draw(st.lists(st.tuples(NAMES, NOTHING), max_size=2))
        timestamp = draw(st.sampled_from((0, 1, 64, 10**12, 2**61)))
        records.append(Record(offset, timestamp, draw(NOTHING), draw(NOTHING | st.just(b"v" * 20_000)), headers))
        offset += 1
    return base, records


@given(batches_of_records(), st.sampled_from(Compression), st.integers(1, 5))
def test_events_are_the_records_of_a_batch(
    batch: tuple[int, list[Record]], compression: Compression, step: int
) -> None:
    base, records = batch
    decoder = opened(build_batch(records, base_offset=base, compression=compression))
    events = all_events(decoder, step=step)
    found = [Record(e.offset, e.timestamp_ms, e.key, e.body, e.header_list) for e in events]
    assert found == records
    assert decoder.next_offset == records[-1].offset + 1


@given(batches_of_records(), st.data())
def test_only_wanted_offsets_are_decoded(batch: tuple[int, list[Record]], data: st.DataObject) -> None:
    base, records = batch
    near = st.sampled_from([record.offset + more for record in records for more in (0, 1)])
    first, end = data.draw(near), data.draw(near)
    events = all_events(opened(build_batch(records, base_offset=base)), first, end)
    assert [event.offset for event in events] == [r.offset for r in records if first <= r.offset < end]


def test_a_control_batch_has_no_events() -> None:
    batch = bytes(hole(3, 9, 1))
    assert open_batch(batch, Shard("t", 0), TriggerInfo("kafka-cluster", "t"), NoVerdicts()) is None


def test_a_flipped_bit_is_found_before_an_event_is_made() -> None:
    batch = build_batch([Record(0, 0, None, b"value")])
    batch[-3] ^= 1
    with pytest.raises(KafkaError, match="checksum"):
        opened(batch)


@pytest.mark.parametrize("size", [10, HEADER_SIZE, HEADER_SIZE + 3])
def test_a_truncated_batch_is_refused(size: int) -> None:
    with pytest.raises(KafkaError, match="truncated"):
        opened(build_batch([Record(0, 0, None, b"value")])[:size])


def test_a_body_that_cannot_be_decompressed_is_refused() -> None:
    batch = build_batch([Record(0, 0, None, b"value")], compression=Compression.ZSTD)
    batch[HEADER_SIZE:] = bytes(len(batch) - HEADER_SIZE)
    with pytest.raises(KafkaError, match="decompressed"):
        opened(with_checksum(batch))


def test_records_before_a_malformed_one_are_decoded() -> None:
    batch = build_batch([Record(offset, 0, None, b"value") for offset in range(3)])
    one = (len(batch) - HEADER_SIZE) // 3
    batch[HEADER_SIZE + 2 * one] = 0x7F  # the size of the third
    decoder = opened(with_checksum(batch))
    assert [event.offset for event in decoder.next_events(9, 0, 9)] == [0, 1]
    for _ in range(2):
        with pytest.raises(KafkaError):
            decoder.next_events(9, 0, 9)
    assert decoder.next_offset == 2


@given(st.binary(max_size=60), st.integers(1, 5))
def test_no_bytes_of_a_batch_break_the_decoder(body: bytes, count: int) -> None:
    batch = build_batch([Record(0, 0, None, b"")])[:HEADER_SIZE] + body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    decoder = opened(with_checksum(batch))
    try:
        events = all_events(decoder)
    except KafkaError:
        return
    assert len(events) <= count

import pytest

from tailrace.pipeline.brokers.aborted_batches import read_fetched
from tailrace.pipeline.segments.arrow_rows import Source
from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.pipeline.segments.log_pieces import LogPiece, deleted_piece, merged_gaps, piece_of, split_by_size
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.control_batches import bridge, hole
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import KafkaError

SOURCE = Source("orders", "7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b", 0, "", 0)


def records(*offsets: int, epoch: int = 3, compression: Compression = Compression.NONE) -> bytearray:
    content = [Record(each, 1000 + each, b"k", b"v%d" % each) for each in offsets]
    return build_batch(content, base_offset=offsets[0], leader_epoch=epoch, compression=compression)


def piece(start: int, end: int, *batches: bytearray) -> LogPiece:
    return piece_of(SOURCE, list(read_fetched(b"".join(batches), ())), start, end)


def offsets_of(found: LogPiece) -> list[int]:
    batch = found.arrow(("offset",))
    return [] if batch is None else batch.column(0).to_pylist()


def test_a_piece_has_the_records_of_all_its_batches() -> None:
    found = piece(0, 5, records(0, 1, epoch=2), records(2, 3, 4, epoch=4, compression=Compression.GZIP))
    assert offsets_of(found) == [0, 1, 2, 3, 4]
    assert (found.gaps, found.epoch_first, found.epoch_last) == ((), 2, 4)
    batch = found.arrow(("key", "value", "topic", "epoch"))
    assert batch.slice(4).to_pylist() == [{"key": b"k", "value": b"v4", "topic": "orders", "epoch": 4}]
    assert found.source_bytes > 2 * 61


def test_a_piece_has_only_its_own_offsets() -> None:
    found = piece(1, 4, records(0, 1, 2), records(3, 4, 5))
    assert (offsets_of(found), found.gaps) == ([1, 2, 3], ())


def test_every_offset_without_a_record_is_explained() -> None:
    found = piece(0, 40, records(2, 5), hole(6, 16, 1), bridge(16, 2), records(17, 20), records(30, 31))
    assert offsets_of(found) == [2, 5, 17, 20, 30, 31]
    assert found.gaps == (
        Gap(0, 1, "compaction"),
        Gap(3, 4, "compaction"),
        Gap(6, 15, "hole"),
        Gap(16, 16, "bridge"),
        Gap(18, 19, "compaction"),
        Gap(21, 29, "compaction"),
        Gap(32, 39, "compaction"),
    )


def test_a_hole_may_reach_beyond_the_piece() -> None:
    found = piece(7, 9, hole(6, 16, 1))
    assert (found.rows, found.gaps) == (None, (Gap(7, 8, "hole"),))


def test_neighbouring_gaps_with_one_reason_are_one() -> None:
    assert piece(0, 8, hole(0, 3, 1), hole(3, 6, 1), bridge(6, 1), bridge(7, 2)).gaps == (
        Gap(0, 5, "hole"),
        Gap(6, 7, "bridge"),
    )
    assert merged_gaps([Gap(0, 1, "hole"), Gap(3, 4, "hole")]) == [Gap(0, 1, "hole"), Gap(3, 4, "hole")]


def test_deleted_records_are_a_piece_without_rows() -> None:
    assert deleted_piece(3, 8) == LogPiece(3, 8, None, (Gap(3, 7, "deleted"),))


def test_offsets_out_of_order_are_corrupt() -> None:
    with pytest.raises(KafkaError, match="not in order"):
        piece(0, 9, records(3, 4), records(1, 2))


def test_large_batches_are_decoded_one_by_one() -> None:
    batches = list(read_fetched(b"".join([*(records(each) for each in range(5)), records(*range(5, 40_000))]), ()))
    assert [len(group) for group in split_by_size(batches)] == [5, 1]

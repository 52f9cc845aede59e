"""Tests the recognition of files and their rows; `test_log_dump.py` tests what is printed."""

from array import array
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

import pytest
from batch_samples import header_of, make_batch
from simulation.files import SimulatedFiles

from tailrace.cli.files.file_dumps import DamageError, Dump, NotALogFileError, Row, bytes_in_json, dump_of, record_line
from tailrace.protocol.batches.control_batches import bridge, hole
from tailrace.protocol.batches.record_batch import stamp, stamp_crc
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.protocol.ids import Epoch
from tailrace.runtime.files import RealFiles
from tailrace.storage.directory.checkpoints import SavedHighWatermark, save_high_watermarks
from tailrace.storage.directory.promises import Promises
from tailrace.storage.indexes import offset_index
from tailrace.storage.manifest import manifest
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.transactions.aborted_transactions import BEHIND_COPY, AbortedTransaction, encode_aborted

BASE = 1000
NAME = f"{BASE:020}"


def _produced(timestamp: int) -> bytearray:
    return build_batch(
        [Record(5, timestamp, b"k", b"v")], base_offset=5, producer_id=9, producer_epoch=1, base_sequence=30
    )


def _dump(name: str, content: bytes, *, with_records: bool = False) -> Dump:
    files = SimulatedFiles()
    files.open(f"/{name}", create=True).append(content)
    return dump_of(files, f"/{name}", with_records=with_records)


def _rows_and_damage(dump: Dump) -> tuple[list[Row], str]:
    rows = []
    with pytest.raises(DamageError) as raised:
        rows.extend(row for row in dump.rows)
    return rows, str(raised.value)


def _offsets(*entries: tuple[int, int]) -> bytes:
    return array("Q", [offset_index.entry(*each) for each in entries]).tobytes()


def _times(timestamps: Iterable[int]) -> bytes:
    return array("q", timestamps).tobytes()


def _producers(newest_ms: int) -> bytes:
    states = ProducerStates()
    states.on_appended(header_of(_produced(newest_ms)))
    return states.snapshot()


# which kind of file


async def test_files_are_known_by_their_content_under_any_name() -> None:
    files = SimulatedFiles()
    await save_high_watermarks(files, "", {(UUID(int=7), 2): SavedHighWatermark(55, Epoch(3))})
    high_watermarks = files.read("/high-watermarks")
    assert [row["high_watermark"] for row in _dump("copy", high_watermarks).rows] == [55]
    assert [row["producer_id"] for row in _dump("copy", _producers(1)).rows] == [9]
    assert [row["base_offset"] for row in _dump("copy", _produced(1)).rows] == [5]


async def test_a_name_says_more_than_a_byte_that_a_batch_could_have() -> None:
    """In a batch the 17th byte is the magic; in other files it may be a part of a number."""
    entries = ((0, 0), (1, 256), (2, 2))
    assert "entry" in next(_dump(f"{NAME}.index", _offsets(*entries)).rows)
    assert "entry" in next(_dump(f"{NAME}.timeindex", _times([0, 1, 2])).rows)
    assert "producer_id" in next(_dump(f"{NAME}.producers", _producers(newest_ms=2)).rows)
    files = SimulatedFiles()
    await save_high_watermarks(
        files, "", {(UUID(bytes=bytes([0] * 10 + [2] + [0] * 5)), 0): SavedHighWatermark(1, Epoch(1))}
    )
    assert "high_watermark" in next(dump_of(files, "/high-watermarks", with_records=False).rows)


@pytest.mark.parametrize("name", [f"{NAME}.log", f"{NAME}.log.cleaned", f"{NAME}.log.new"])
def test_a_log_is_one_before_it_has_its_name(name: str) -> None:
    assert list(_dump(name, b"").rows) == []


def test_what_is_none_of_ours() -> None:
    for name in ("notes.txt", f"{NAME}.snapshot", "clean-shutdown"):
        with pytest.raises(NotALogFileError):
            _dump(name, b"closed cleanly\n")


def test_what_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        dump_of(RealFiles(read_only=True), str(tmp_path / f"{NAME}.log"), with_records=False)


@pytest.mark.parametrize("name", [f"{NAME}.index", f"{NAME}.timeindex", f"{NAME}.log"])
def test_what_the_disk_does_not_give_is_damage(name: str) -> None:
    files = SimulatedFiles()
    files.open(f"/{name}", create=True).append(_produced(1))
    dump = dump_of(files, f"/{name}", with_records=True)
    files.reads_fail = True
    assert "cannot be read" in _rows_and_damage(dump)[1]


# batches


def test_damage_comes_after_the_rows_and_names_all_of_it() -> None:
    batches = [make_batch(0), make_batch(1), make_batch(2)]
    batches[1][-1] ^= 1
    batches[2][-1] ^= 1
    rows, damage = _rows_and_damage(_dump(f"{NAME}.log", b"".join(batches) + b"torn"))
    assert [row["crc_ok"] for row in rows] == [True, False, False]
    assert damage == (
        "the checksum of 2 batches does not match, first at position 100;"
        " no batch can be read from position 300 of 304 on: 4 bytes are too few for a batch"
    )


def test_records_that_nobody_can_read_are_damage_in_spite_of_a_good_checksum() -> None:
    good, noise = _produced(1), make_batch(6)
    rows, damage = _rows_and_damage(_dump(f"{NAME}.log", good + noise, with_records=True))
    assert [row["crc_ok"] for row in rows] == [True, True]
    assert [record["value"] for record in rows[0]["records"]] == [b"v"]
    assert "records" not in rows[1]
    assert damage == f"the batch at position {len(good)}: {rows[1]['records_error']}"
    assert len(list(_dump(f"{NAME}.log", noise).rows)) == 1


def test_a_codec_that_nobody_knows_is_a_number() -> None:
    batch = make_batch(0)
    batch[22] |= 7
    stamp_crc(batch, 0, len(batch))
    (row,) = _dump(f"{NAME}.log", batch).rows
    assert row["compression"] == "7"


@pytest.mark.parametrize(
    ("key", "control_type"),
    [
        (b"\x00\x00\x00\x00", "abort"),
        (b"\x00\x00\x00\x01", "commit"),
        (b"\x00\x00\x74\x42", "bridge"),
        (b"\x00\x00\x00\x09", "unknown"),
        (None, "unknown"),
    ],
)
def test_control_records(key: bytes | None, control_type: str) -> None:
    batch = build_batch([Record(0, 1, key, b"")], is_control=True, is_transactional=True, producer_id=1)
    (row,) = _dump(f"{NAME}.log", batch, with_records=True).rows
    assert row["records"][0]["control_type"] == control_type
    assert f"control {control_type}" in record_line(row["records"][0])


def test_what_recovery_wrote_is_called_by_its_name() -> None:
    stamped = bridge(90, 300)
    stamp(stamped, 0, 90, 301)
    dump = _dump(f"{NAME}.log", hole(70, 90, 300) + stamped)
    flags = dump.columns[-1].text
    first, second = dump.rows
    assert (flags(first), first["written_by_recovery"], first["bridge_epoch"]) == ("hole", "hole", None)
    assert (flags(second), second["written_by_recovery"], second["bridge_epoch"]) == ("bridge:300", "bridge", 300)
    assert second["leader_epoch"] == 301


@pytest.mark.parametrize(("is_commit", "kind"), [(True, "commit"), (False, "abort")])
def test_a_marker_is_shown_with_its_producer_and_the_epoch_of_its_coordinator(is_commit: bool, kind: str) -> None:
    marker = marker_batch(7, 3, 4711, 2, is_commit=is_commit, coordinator_epoch=12, now_ms=1000)
    dump = _dump(f"{NAME}.log", _produced(1000) + marker)
    data, row = dump.rows
    assert (data["marker"], data["coordinator_epoch"]) == (None, None)
    assert (row["marker"], row["coordinator_epoch"], row["producer_id"], row["producer_epoch"]) == (kind, 12, 4711, 2)
    shown = {column.title: column.text(row) for column in dump.columns}
    assert (shown["producer/epoch/seq"], shown["flags"]) == ("4711/2/-", f"{kind}:12,transactional")


def test_a_headers_name_cannot_leave_its_line() -> None:
    line = record_line(
        {"offset": 3, "timestamp": -1, "key": None, "value": b"v", "headers": [{"name": "a\nb", "value": None}]}
    )
    assert line == 'offset 3  -  key null  value "v"  header a\\nb=null'


def test_bytes_in_json() -> None:
    assert bytes_in_json("Grüße\n".encode()) == "Grüße\n"
    assert bytes_in_json(b"\xff\x00") == {"base64": "/wA="}


# indexes


def test_offsets_count_from_the_base_in_the_name() -> None:
    content = _offsets((1, 100), (7, 300))
    for name, base in ((f"{NAME}.index", BASE), ("copy.index", 0)):
        assert list(_dump(name, content).rows) == [
            {"entry": 0, "offset": base + 1, "position": 100},
            {"entry": 1, "offset": base + 7, "position": 300},
        ]


def test_an_index_is_read_in_pieces_and_numbered_through() -> None:
    rows = list(_dump(f"{NAME}.timeindex", _times(range(20_000))).rows)
    assert [row["entry"] for row in rows] == [row["max_timestamp_before"] for row in rows] == list(range(20_000))


def test_offsets_must_grow_and_times_must_not_fall() -> None:
    rows, damage = _rows_and_damage(_dump(f"{NAME}.index", _offsets((1, 100), (1, 100), (0, 0), (3, 300))))
    assert (len(rows), damage) == (4, "entry 1 is not larger than the one before it")
    assert len(list(_dump(f"{NAME}.timeindex", _times([-1, 5, 5])).rows)) == 3
    rows, damage = _rows_and_damage(_dump(f"{NAME}.timeindex", _times([5, 6, 5])))
    assert (len(rows), damage) == (3, "entry 2 is not larger than the one before it")


def test_an_index_that_ends_within_an_entry() -> None:
    rows, damage = _rows_and_damage(_dump(f"{NAME}.index", _offsets((1, 100), (2, 200))[:-1]))
    assert (len(rows), damage) == (1, "the file ends within entry 1")


# small files


def test_a_line_with_a_wrong_checksum_is_shown_as_it_is() -> None:
    lines = [manifest.format_line(), manifest.start_line(3), manifest.flushed_line(4)]
    damaged = lines[1].replace(b"3}", b"\x1b}")
    dump = _dump("manifest", lines[0] + damaged + lines[2])
    rows, damage = _rows_and_damage(dump)
    assert [row["fact"] and row["fact"]["fact"] for row in rows] == ["format", None, "flushed"]
    assert damage == f"the checksum of one line does not match, first at position {len(lines[0])}"
    *_, crc, fact = dump.columns
    assert (crc.text(rows[1]), fact.text(rows[1])) == ("WRONG", '{"fact":"start","offset":\\x1b}')


def test_of_a_small_file_with_a_wrong_checksum_nothing_is_believed() -> None:
    content = bytearray(_producers(1))
    content[8] ^= 1
    rows, damage = _rows_and_damage(_dump(f"{NAME}.producers", content))
    assert (rows, "checksum" in damage) == ([], True)


async def test_high_watermarks_come_in_order() -> None:
    files = SimulatedFiles()
    keys = [(UUID(int=2), 0), (UUID(int=1), 10), (UUID(int=1), 9)]
    await save_high_watermarks(files, "", dict.fromkeys(keys, SavedHighWatermark(1, Epoch(1))))
    rows = dump_of(files, "/high-watermarks", with_records=False).rows
    assert [(UUID(row["topic_id"]).int, row["partition"]) for row in rows] == [(1, 9), (1, 10), (2, 0)]


async def test_what_a_store_has_promised() -> None:
    files = SimulatedFiles()
    promises = Promises(files, "")
    await promises.promise((UUID(int=7), 3), Epoch(5))
    await promises.doubt_all()
    await promises.end_doubt((UUID(int=7), 3))
    key = {"topic_id": str(UUID(int=7)), "partition": 3}
    dump = dump_of(files, "/promises", with_records=False)
    rows = list(dump.rows)
    assert rows == [
        {"position": 6, "says": "promised", **key, "epoch": 5},
        {"position": 39, "says": "all in doubt", "topic_id": None, "partition": None, "epoch": None},
        {"position": 72, "says": "no longer in doubt", **key, "epoch": None},
    ]
    assert [column.text(rows[1]) for column in dump.columns] == [39, "all in doubt", None, None, None]
    await promises.promise((UUID(int=7), 3), Epoch(6), in_doubt=True)
    await promises.note_failed_disk()
    others = list(dump_of(files, "/promises", with_records=False).rows)[3:]
    nobody = {"topic_id": None, "partition": None}
    assert others == [
        {"position": 105, "says": "in doubt", **key, "epoch": None},
        {"position": 138, "says": "promised", **key, "epoch": 6},
        {"position": 171, "says": "the disk failed", **nobody, "epoch": None},
    ]
    files.open("/promises").truncate(100)
    rows, sentence = _rows_and_damage(dump_of(files, "/promises", with_records=False))
    assert (len(rows), sentence) == (2, "the entry at position 72 of 100 is incomplete or corrupt")


# transactions


def test_a_producer_shows_its_open_transaction() -> None:
    states = ProducerStates()
    batch = build_batch(
        [Record(5, 1, b"k", b"v")],
        base_offset=5,
        producer_id=9,
        producer_epoch=1,
        base_sequence=30,
        is_transactional=True,
    )
    states.on_transactional(header_of(batch))
    (row,) = _dump("copy", states.snapshot()).rows
    assert (row["open_transaction"], row["coordinator_epoch"]) == (5, None)


def test_aborted_transactions_are_shown() -> None:
    content = encode_aborted([AbortedTransaction(9, 5, 8, 9), AbortedTransaction(7, 6, BEHIND_COPY, 6)])
    found = [(row["producer_id"], row["first_offset"], row["marker_offset"]) for row in _dump("copy", content).rows]
    assert found == [(9, 5, 8), (7, 6, None)]
    _, damage = _rows_and_damage(_dump(f"{NAME}.aborted", content[:-1]))
    assert "checksum" in damage

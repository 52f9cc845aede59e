"""Tests `tailrace log dump`: it prints each kind of file as far as it can be read, without tracebacks."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from logs import log_at
from msgspec import Struct

from tailrace.cli.main import main
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.ids import NO_EPOCH, Epoch
from tailrace.runtime.files import RealFiles
from tailrace.storage.directory.checkpoints import SavedHighWatermark, save_high_watermarks
from tailrace.storage.log_config import LogConfig

FIRST = "00000000000000000000"
SNAPSHOT = "00000000000000000004.producers"
BATCHES = [
    build_batch([Record(0, 1_700_000_000_000, b"\x1b[31mred\n", b"\xff" + b"long" * 100)], leader_epoch=4),
    build_batch(
        [Record(1, 5, None, "Grüße".encode(), [("trace", b"1")]), Record(2, 7, b"k", None)],
        base_offset=1,
        leader_epoch=4,
        compression=Compression.ZSTD,
        producer_id=9,
        producer_epoch=1,
        base_sequence=30,
        is_transactional=True,
    ),
    build_batch(
        [Record(3, 8, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00")],
        base_offset=3,
        leader_epoch=4,
        producer_id=9,
        producer_epoch=1,
        is_control=True,
        is_transactional=True,
    ),
]


class Printed(Struct):
    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Dump:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: object) -> Printed:
        status = main(["log", "dump", *map(str, words)])
        return Printed(status, *self.capsys.readouterr())


@pytest.fixture
def dump(capsys: pytest.CaptureFixture[str]) -> Dump:
    return Dump(capsys)


@pytest.fixture
async def replica(tmp_path: Path) -> Path:
    log = log_at(RealFiles(), str(tmp_path), LogConfig(index_interval_bytes=100), clean=True)
    for batch in BATCHES:
        log.append(batch, read_header(batch))
    await log.close()
    return tmp_path


async def test_a_line_for_each_batch(replica: Path, dump: Dump) -> None:
    printed = dump(replica / f"{FIRST}.log")
    assert (printed.status, printed.err) == (0, "")
    heading, *lines = [line.split() for line in printed.out.splitlines()]
    assert heading[:5] == ["position", "base", "last", "epoch", "records"]
    assert [line[:6] for line in lines] == [
        ["0", "0", "0", "4", "1", "none"],
        [str(len(BATCHES[0])), "1", "2", "4", "2", "zstd"],
        [str(len(BATCHES[0]) + len(BATCHES[1])), "3", "3", "4", "1", "none"],
    ]
    assert "2023-11-14T22:13:20.000Z" in lines[0]
    assert "9/1/30" in lines[1]
    assert [line[-2:] for line in lines] == [["ok", "-"], ["ok", "transactional"], ["ok", "commit:0,transactional"]]


async def test_records_are_shown_without_harm_to_the_terminal(replica: Path, dump: Dump) -> None:
    printed = dump(replica / f"{FIRST}.log", "--records")
    assert printed.status == 0
    assert "\x1b" not in printed.out
    assert 'key "\\x1b[31mred\\n"' in printed.out
    assert "… (401 bytes)" in printed.out
    assert 'key null  value "Grüße"  header trace="1"' in printed.out
    assert "control commit" in printed.out


async def test_json_has_everything_in_full(replica: Path, dump: Dump) -> None:
    first, second, third = dump(replica / f"{FIRST}.log", "--records", "--output", "json").rows
    assert first["records"][0]["key"] == "\x1b[31mred\n"
    assert len(first["records"][0]["value"]["base64"]) > 400
    assert (second["base_offset"], second["last_offset"], second["compression"]) == (1, 2, "zstd")
    assert second["records"][0] == {
        "offset": 1,
        "timestamp": 5,
        "key": None,
        "value": "Grüße",
        "headers": [{"name": "trace", "value": "1"}],
    }
    assert second["crc_ok"]
    assert third["records"][0]["control_type"] == "commit"


async def test_the_other_files_of_a_replica(replica: Path, dump: Dump) -> None:
    assert [row["offset"] for row in dump(replica / f"{FIRST}.index", "--output", "json").rows] == [1, 3]
    times = dump(replica / f"{FIRST}.timeindex", "--output", "json").rows
    assert [row["max_timestamp_before"] for row in times] == [1_700_000_000_000] * 2
    facts = [row["fact"]["fact"] for row in dump(replica / "manifest", "--output", "json").rows]
    assert facts[-1] == "closed"
    for name in (f"{FIRST}.index", f"{FIRST}.timeindex", "manifest"):
        assert dump(replica / name).status == 0
    producers = replica / SNAPSHOT
    (row,) = dump(producers, "--output", "json").rows
    assert (row["producer_id"], row["batches"][-1]["base_sequence"]) == (9, 30)
    assert "30-31@1" in dump(producers).out


async def test_high_watermarks(tmp_path: Path, dump: Dump) -> None:
    await save_high_watermarks(RealFiles(), str(tmp_path), {(UUID(int=7), 2): SavedHighWatermark(55, Epoch(3))})
    (row,) = dump(tmp_path / "high-watermarks", "--output", "json").rows
    assert row == {"topic_id": str(UUID(int=7)), "partition": 2, "high_watermark": 55, "epoch": 3}
    assert dump(tmp_path / "high-watermarks").out.splitlines()[1].split() == [str(UUID(int=7)), "2", "55", "3"]


async def test_what_is_not_known_is_a_dash(tmp_path: Path, dump: Dump) -> None:
    await save_high_watermarks(RealFiles(), str(tmp_path), {(UUID(int=7), 2): SavedHighWatermark(55, NO_EPOCH)})
    assert dump(tmp_path / "high-watermarks").out.splitlines()[1].split() == [str(UUID(int=7)), "2", "55", "-"]
    (row,) = dump(tmp_path / "high-watermarks", "-o", "json").rows
    assert row["epoch"] is None


async def test_a_wrong_checksum_is_told_and_the_rest_is_dumped(replica: Path, dump: Dump) -> None:
    path = replica / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    data[len(BATCHES[0]) + 65] ^= 1
    path.write_bytes(data)
    printed = dump(path, "--records")
    assert printed.status == 1
    assert [("WRONG" in line) for line in printed.out.splitlines() if "ok" in line or "WRONG" in line] == [
        False,
        True,
        False,
    ]
    assert "the records cannot be read" in printed.out
    assert printed.err == (
        f"tailrace log dump: {path} is damaged: the checksum of one batch does not match,"
        f" first at position {len(BATCHES[0])}\n"
    )


async def test_a_torn_file_is_dumped_up_to_there(replica: Path, dump: Dump) -> None:
    path = replica / f"{FIRST}.log"
    path.write_bytes(path.read_bytes()[:-5])
    printed = dump(path)
    assert printed.status == 1
    assert len(printed.out.splitlines()) == 3
    assert f"from position {len(BATCHES[0]) + len(BATCHES[1])} of" in printed.err


@pytest.mark.parametrize("name", [f"{FIRST}.index", f"{FIRST}.timeindex", "manifest", SNAPSHOT])
async def test_torn_small_files(replica: Path, dump: Dump, name: str) -> None:
    path = replica / name
    path.write_bytes(path.read_bytes()[:-3])
    printed = dump(path)
    assert printed.status == 1
    assert printed.err.startswith(f"tailrace log dump: {path} is damaged: ")
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "producers"])
@pytest.mark.parametrize("content", [b"", b"\n", b"\xff" * 100, bytes(100), b"hello, world " * 20])
def test_noise_is_never_a_traceback(tmp_path: Path, dump: Dump, kind: str, content: bytes) -> None:
    path = tmp_path / f"{FIRST}.{kind}"
    path.write_bytes(content)
    assert dump(path, "--records").status in (0, 1)
    assert dump(path, "--output", "json").status in (0, 1)


def test_what_is_no_file_of_a_log(tmp_path: Path, dump: Dump) -> None:
    (tmp_path / "notes.txt").write_text("buy milk")
    for path in (tmp_path / "notes.txt", tmp_path / "missing.log", tmp_path):
        printed = dump(path)
        assert (printed.status, printed.out) == (2, "")
        assert str(path) in printed.err
        assert len(printed.err.splitlines()) == 1

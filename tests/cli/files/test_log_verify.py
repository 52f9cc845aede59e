"""Tests `tailrace log verify`: it names the file and position of damage, and changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
import trio
from batch_samples import header_of, make_batch
from logs import log_at
from msgspec import Struct

from tailrace.cli.main import main
from tailrace.protocol.ids import Epoch
from tailrace.runtime.files import RealFiles
from tailrace.storage.directory.checkpoints import SavedHighWatermark, save_high_watermarks, write_clean_shutdown_mark
from tailrace.storage.directory.layout import replica_directory
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments.batch_scan import BatchScan

TOPIC = UUID(int=3)


class Printed(Struct):
    status: int
    out: str
    err: str


Verify = Callable[..., Printed]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    def run(*words: object) -> Printed:
        status = main(["log", "verify", *map(str, words)])
        return Printed(status, *capsys.readouterr())

    return run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Makes the data directory of an SPU with two replicas that was stopped cleanly."""
    trio.run(write_data, tmp_path)
    return tmp_path


async def write_data(data: Path) -> None:
    files = RealFiles()
    for partition in range(2):
        directory = replica_directory(str(data), "events", TOPIC, partition)
        files.make_directories(directory)
        log = log_at(files, directory, LogConfig(segment_bytes_max=500, index_interval_bytes=100), clean=True)
        for offset in range(12):
            batch = make_batch(offset)
            log.append(batch, header_of(batch))
        await log.close()
    await save_high_watermarks(
        files, str(data), dict.fromkeys([(TOPIC, 0), (TOPIC, 1)], SavedHighWatermark(12, Epoch(0)))
    )
    await write_clean_shutdown_mark(files, str(data), [(TOPIC, 0), (TOPIC, 1)])


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def everything_in(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_what_is_whole(data: Path, verify: Verify) -> None:
    before = everything_in(data)
    printed = verify(data)
    assert (printed.status, printed.err) == (0, "")
    assert printed.out == "2 replicas, 6 segments, 2400 bytes of batches: no damage\n"
    assert everything_in(data) == before


def test_nothing_can_be_changed_by_mistake(data: Path) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        RealFiles(read_only=True).open(str(data / "high-watermarks")).append(b"more")


@pytest.mark.parametrize("below", [".", "topics", "topics/events", f"topics/events/{TOPIC}/1"])
def test_damage_is_found_from_any_directory_above(data: Path, verify: Verify, below: str) -> None:
    log = data / "topics" / "events" / str(TOPIC) / "1" / f"{5:020}.log"
    flip(log, 250)
    printed = verify(data / below)
    assert printed.status == 1
    damage, summary = printed.out.splitlines()
    assert damage == f"damage  {log}: position 200: the checksum of the batch at offset 7 does not match"
    assert summary.endswith(": 1 × damage")


def test_several_data_directories(data: Path, verify: Verify) -> None:
    flip(data / "high-watermarks", 9)
    assert verify(data.parent).status == 1


def test_json(data: Path, verify: Verify) -> None:
    flip(data / "high-watermarks", 9)
    flip(data / "topics" / "events" / str(TOPIC) / "0" / "manifest", 3)
    printed = verify(data, "--output", "json")
    assert printed.status == 1
    checkpoint, line, summary = map(json.loads, printed.out.splitlines())
    assert (checkpoint["type"], checkpoint["path"]) == ("damage", str(data / "high-watermarks"))
    assert (line["position"], line["sentence"]) == (0, "the checksum of line 1 does not match")
    assert (summary["type"], summary["replicas"], summary["damage"]) == ("summary", 2, 2)


@pytest.mark.parametrize("name", ["high-watermarks", "clean-shutdown"])
def test_no_bit_flips_unnoticed_beside_the_replicas(data: Path, verify: Verify, name: str) -> None:
    path = data / name
    whole = path.read_bytes()
    for position in range(len(whole)):
        flip(path, position)
        printed = verify(data)
        assert printed.status == 1
        assert f"damage  {path}: " in printed.out
        path.write_bytes(whole)


def test_a_note_is_no_damage(data: Path, verify: Verify) -> None:
    (data / "topics" / "events" / str(TOPIC) / "0" / "odd\x1b[31m").touch()
    printed = verify(data)
    assert printed.status == 0
    assert printed.out.startswith("note    ")
    assert "\x1b" not in printed.out
    assert printed.out.endswith("no damage, 1 note\n")


def test_nothing_to_verify(tmp_path: Path, verify: Verify) -> None:
    (tmp_path / "notes.txt").write_text("buy milk")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "notes.txt"):
        printed = verify(path)
        assert (printed.status, printed.out) == (2, "")
        assert len(printed.err.splitlines()) == 1


def test_a_new_data_directory_is_whole(tmp_path: Path, verify: Verify) -> None:
    (tmp_path / "topics").mkdir()
    assert verify(tmp_path).status == 0


def test_an_interrupt_ends_it_without_a_traceback(data: Path, verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: BatchScan) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(BatchScan, "__iter__", interrupted)
    printed = verify(data)
    assert (printed.status, printed.err) == (130, "")


def test_progress_when_it_is_asked_for(data: Path, verify: Verify) -> None:
    printed = verify(data, "--progress")
    assert printed.status == 0
    assert "% " in printed.err
    assert "%" not in printed.out

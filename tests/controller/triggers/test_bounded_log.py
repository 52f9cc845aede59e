from pathlib import Path

import pytest
from simulation.files import SimulatedFiles
from spus import lack_open_files

from tailrace.controller.triggers.bounded_log import LAST, BoundedLog, LogPart
from tailrace.runtime.files import Files, RealFiles


@pytest.fixture(params=["real", "simulated"])
def files(request: pytest.FixtureRequest) -> Files:
    return RealFiles() if request.param == "real" else SimulatedFiles()


@pytest.fixture
def path(files: Files, tmp_path: Path) -> str:
    files.make_directories(str(tmp_path))
    return str(tmp_path / "replica1.log")


def test_whole_lines_are_read_from_where_the_last_part_ended(files: Files, path: str) -> None:
    log = BoundedLog(files, path)
    log.append(b"one\ntwo\nth")
    assert log.read(LAST, 100) == LogPart("one\ntwo\n", 8)
    assert log.read(8, 100) == LogPart("", 8)
    log.append(b"ree\n")
    assert log.read(8, 100) == LogPart("three\n", 14)
    assert log.read(0, 5) == LogPart("one\n", 4)
    assert log.read(LAST, 8) == LogPart("three\n", 14)
    assert log.last_line() == "three"
    log.close()


def test_a_log_goes_on_after_no_file_could_be_opened(monkeypatch: pytest.MonkeyPatch, files: Files, path: str) -> None:
    log = BoundedLog(files, path, half_bytes_max=8)
    log.append(b"line1\n")
    with monkeypatch.context() as patch:
        patch.setattr(files, "open", lambda *_, **__: lack_open_files())
        for _ in range(2):
            with pytest.raises(OSError, match="Too many open files"):
                log.append(b"lost\n")
    log.append(b"line2\n")
    assert log.read(0, 100) == LogPart("line1\nline2\n", 12)
    log.close()


def test_the_oldest_lines_are_dropped_and_positions_stay(files: Files, path: str) -> None:
    log = BoundedLog(files, path, half_bytes_max=8)
    for number in range(10):
        log.append(b"line%d\n" % number)
    assert sum(map(files.size, (path, f"{path}.old"))) <= 16
    assert log.read(48, 100) == LogPart("line8\nline9\n", 60)
    assert log.read(54, 100) == LogPart("line9\n", 60)
    assert log.read(0, 100) == LogPart("line8\nline9\n", 60)
    assert log.read(999, 100) == LogPart("line8\nline9\n", 60)
    log.close()


def test_another_process_continues_the_log(files: Files, path: str) -> None:
    log = BoundedLog(files, path, half_bytes_max=8)
    log.append(b"before\n")
    log.append(b"then\n")
    log.close()
    log = BoundedLog(files, path, half_bytes_max=8)
    assert log.read(LAST, 100).text == "before\nthen\n"
    log.append(b"now\n")
    assert log.last_line() == "now"
    log.close()


def test_lines_longer_than_a_part_and_appends_longer_than_a_log(files: Files, path: str) -> None:
    log = BoundedLog(files, path, half_bytes_max=16)
    log.append(b"x" * 100 + b"\n")
    assert log.read(0, 10) == LogPart("x" * 10, 10)
    assert log.read(10, 10) == LogPart("xxxxx\n", 16)
    assert log.last_line() == "x" * 15
    log.close()


def test_an_empty_log_has_no_last_line(files: Files, path: str) -> None:
    log = BoundedLog(files, path)
    assert log.last_line() == ""
    assert log.read(LAST, 100) == LogPart("", 0)
    log.close()

from errno import ENOSPC
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.pipeline.replay import map_parts
from tailrace.pipeline.replay.map_parts import (
    MapNames,
    PartWriter,
    last_state,
    partition_ranges,
    read_document,
    target_offset,
    write_document,
)
from tailrace.pipeline.replay.offset_map import PartState
from tailrace.pipeline.replay.replay_line import ReplayError
from tailrace.pipeline.replay.replay_position import MappedRange, ReplayPosition

NAMES = MapNames("orders", "7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b", 3, "copy")


def test_a_writer_goes_on_after_the_last_part(tmp_path: Path) -> None:
    directory = str(tmp_path)
    writer = PartWriter(directory, NAMES, ReplayPosition(10, 100))
    writer.add([MappedRange(10, 100, 2)])
    assert not writer.is_full
    writer.write(PartState(ReplayPosition(12, 102, 2, 2)))
    writer.write(PartState(ReplayPosition(12, 102, 2, 2)))  # nothing is pending
    again = PartWriter(directory, NAMES, ReplayPosition(10, 100))
    assert again.state == last_state(directory, 3) == PartState(ReplayPosition(12, 102, 2, 2))
    again.add([MappedRange(12, 110, 1)])
    again.write(PartState(ReplayPosition(15, 111, 3, 5), is_end=True))
    assert list(partition_ranges(directory, 3)) == [MappedRange(10, 100, 2), MappedRange(12, 110, 1)]
    assert target_offset(directory, 3, 12) == 110
    assert last_state(directory, 4) is None


def test_the_first_of_two_writers_wins_and_the_other_takes_its_part_over(tmp_path: Path) -> None:
    one, other = (PartWriter(str(tmp_path), NAMES, ReplayPosition(0, 0)) for _ in range(2))
    one.add([MappedRange(0, 0, 5)])
    one.write(PartState(ReplayPosition(5, 5, 5, 5)))
    other.add([MappedRange(0, 0, 7)])
    other.write(PartState(ReplayPosition(7, 7, 7, 7)))
    assert list(partition_ranges(str(tmp_path), 3)) == [MappedRange(0, 0, 5), MappedRange(5, 5, 2)]


def test_a_part_is_a_table_that_names_both_topics(tmp_path: Path) -> None:
    writer = PartWriter(str(tmp_path), NAMES, ReplayPosition(0, 0))
    writer.add([MappedRange(4, None, 2)])
    writer.write(PartState(ReplayPosition(6, 0, 2, 2)))
    (row,) = pq.read_table(tmp_path / "p00003-0000000000.parquet").to_pylist()
    assert row == {
        "topic": "orders",
        "topic_id": NAMES.topic_id,
        "partition": 3,
        "offset": 4,
        "to_topic": "copy",
        "to_offset": None,
        "records": 2,
    }


@pytest.mark.parametrize("content", [b"", b"PAR1", b"TABLE"])
def test_a_damaged_part_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p00003-0000000000.parquet"
    if content == b"TABLE":
        pq.write_table(pa.table({"offset": [1]}), path)
    else:
        path.write_bytes(content)
    with pytest.raises(ReplayError, match=f"{path} is damaged, and says how far the replay is: restore it from a"):
        last_state(str(tmp_path), 3)


def test_a_file_is_no_map(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_document(str(tmp_path / "file")) is None


def test_a_document_is_written_once(tmp_path: Path) -> None:
    directory = str(tmp_path / "new")
    assert read_document(directory) is None
    assert write_document(directory, b"one")
    assert not write_document(directory, b"two")
    assert read_document(directory) == b"one"


def test_a_full_disk_is_a_sentence_and_the_part_can_be_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, content: bytes) -> bool:
        raise OSError(ENOSPC, "No space left on device")

    writer = PartWriter(str(tmp_path), NAMES, ReplayPosition(0, 0))
    writer.add([MappedRange(0, 0, 5)])
    with monkeypatch.context() as patched:
        patched.setattr(map_parts, "write_once", refuse)
        with pytest.raises(
            ReplayError, match=r"p00003-0+\.parquet cannot be written: No space left on device; remove the cause"
        ):
            writer.write(PartState(ReplayPosition(5, 5, 5, 5)))
    writer.write(PartState(ReplayPosition(5, 5, 5, 5)))
    assert list(partition_ranges(str(tmp_path), 3)) == [MappedRange(0, 0, 5)]

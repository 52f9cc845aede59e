import json
from pathlib import Path

import pytest

from tailrace.cli.main import main
from tailrace.pipeline.replay.map_parts import MapNames, PartWriter, write_document
from tailrace.pipeline.replay.offset_map import PartState
from tailrace.pipeline.replay.replay_position import MappedRange, ReplayPosition

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def directory(tmp_path: Path) -> str:
    writer = PartWriter(str(tmp_path), MapNames("orders", "id", 0, "copy"), ReplayPosition(0, 0))
    writer.add([MappedRange(10, 100, 5), MappedRange(20, 105, 5)])
    writer.write(PartState(ReplayPosition(25, 110, 10, 10), is_end=True))
    write_document(str(tmp_path), b"{}")
    return str(tmp_path)


def test_new_offsets_are_shown(directory: str, capsys: Capture) -> None:
    assert main(["pipeline", "target-offset", "0/12", "0/24", "--map", directory]) == 0
    assert capsys.readouterr().out == (
        "PARTITION  OFFSET  NEW OFFSET\n        0      12         102\n        0      24         109\n"
    )


def test_a_record_that_was_not_sent_is_no_success_unless_the_next_one_counts(directory: str, capsys: Capture) -> None:
    assert main(["pipeline", "target-offset", "0/17", "--map", directory]) == 1
    capsys.readouterr()
    assert main(["pipeline", "target-offset", "0/17", "--map", directory, "--or-next", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"partition": 0, "offset": 17, "to_offset": 105}]


def test_another_directory_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert main(["pipeline", "target-offset", "0/17", "--map", str(tmp_path)]) == 2
    assert "is no map of a replay" in capsys.readouterr().err

"""Names of files and directories."""

from uuid import UUID

import pytest

from tailrace.storage.directory import layout
from tailrace.storage.directory.layout import Kind, SegmentFile, ShelfKey, file_name, parse_file_name

TOPIC_ID = UUID("7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b")


@pytest.mark.parametrize("kind", Kind)
def test_a_file_name_is_read_back(kind: Kind) -> None:
    assert parse_file_name(file_name(1234, kind)) == SegmentFile(1234, kind)


def test_names_sort_like_offsets() -> None:
    offsets = [0, 9, 10, 2**31, 2**63 - 1]
    assert [file_name(offset, Kind.LOG) for offset in offsets] == sorted(file_name(o, Kind.LOG) for o in offsets)
    assert file_name(7, Kind.TIME_INDEX) == "00000000000000000007.timeindex"


@pytest.mark.parametrize(
    "name",
    ["manifest", "7.log", "00000000000000000007.txt", "0000000000000000000x.log", "0000000000000000000².log", ""],
)
def test_other_files_belong_to_no_segment(name: str) -> None:
    assert parse_file_name(name) is None


def test_a_recreated_topic_has_another_directory() -> None:
    directory = layout.replica_directory("/data", "events", TOPIC_ID, 3)
    assert directory == "/data/topics/events/7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b/3"
    assert directory.startswith(layout.topic_directory("/data", "events", TOPIC_ID) + "/")
    assert directory != layout.replica_directory("/data", "events", UUID(int=1), 3)


def test_all_directories_up_to_the_data_directory_hold_an_entry_of_the_path() -> None:
    directory = layout.replica_directory("/some/data", "topics", TOPIC_ID, 0)
    assert layout.directories_up_to_data(directory) == [
        directory,
        f"/some/data/topics/topics/{TOPIC_ID}",
        "/some/data/topics/topics",
        "/some/data/topics",
        "/some/data",
    ]
    shelf = layout.shelf_directory("/some/data", ShelfKey(TOPIC_ID, 3, 700))
    assert layout.directories_up_to_data(shelf) == [shelf, "/some/data/shelves", "/some/data"]
    assert layout.directories_up_to_data("/elsewhere") == ["/elsewhere"]


def test_a_replica_is_known_by_its_directory() -> None:
    directory = layout.replica_directory("/some/data", "t", TOPIC_ID, 12)
    assert layout.replica_of(directory) == layout.replica_of_file(f"{directory}/0.log") == (TOPIC_ID, 12)
    for other in ("/elsewhere", f"/backup/t/{TOPIC_ID}/0", "/data/topics/t/no-id/0", f"/data/topics/t/{TOPIC_ID}/x"):
        assert layout.replica_of(other) is None


def test_a_shelf_is_known_by_the_name_of_its_directory() -> None:
    key = ShelfKey(TOPIC_ID, 3, 700)
    directory = layout.shelf_directory("/data", key)
    assert directory == f"/data/shelves/{TOPIC_ID}-3-700"
    assert layout.parse_shelf_name(directory.rpartition("/")[2]) == key
    assert layout.replica_of(directory) is None
    for other in ("", "x", str(TOPIC_ID), f"{TOPIC_ID}-3", f"{TOPIC_ID}-3-x", f"{TOPIC_ID}-3-7-1", f"{TOPIC_ID}+-3-7"):
        assert layout.parse_shelf_name(other) is None
    assert layout.parse_shelf_name("x" * 36 + "-3-7") is None

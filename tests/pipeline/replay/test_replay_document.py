import msgspec
import pytest
from msgspec.structs import replace

from tailrace.pipeline.replay.record_choice import RecordChoice
from tailrace.pipeline.replay.replay_document import (
    PartitionExtent,
    ReplayDocument,
    ReplaySettings,
    check_same,
    check_topic_id,
    decode_document,
    encode_document,
)
from tailrace.pipeline.replay.replay_line import ReplayError
from tailrace.pipeline.replay.replay_position import ReplayPosition

SETTINGS = ReplaySettings("orders", "copy", RecordChoice(from_ms=5, keys=("a*",)), ("key=hash",), "abc")
DOCUMENT = ReplayDocument(SETTINGS, "id", 7, 0, (PartitionExtent(0, "source-id", 3, 9, 100),))


def test_a_document_is_read_as_it_was_written() -> None:
    assert decode_document(encode_document(DOCUMENT), "map") == DOCUMENT
    assert DOCUMENT.extents[0].position == ReplayPosition(3, 100)


def test_another_file_and_a_later_version_are_refused() -> None:
    with pytest.raises(ReplayError, match="map is no map of a replay"):
        decode_document(b"{}", "map")
    with pytest.raises(ReplayError, match="has format version 9"):
        decode_document(msgspec.json.encode(replace(DOCUMENT, version=9)), "map")


def test_a_map_belongs_to_one_replay() -> None:
    check_same(DOCUMENT, SETTINGS, "map")
    check_topic_id(DOCUMENT, "id")
    with pytest.raises(ReplayError, match="with another window or key filter"):
        check_same(DOCUMENT, replace(SETTINGS, choice=RecordChoice()), "map")
    with pytest.raises(ReplayError, match="with another secret for hashes"):
        check_same(DOCUMENT, replace(SETTINGS, secret="def"), "map")
    with pytest.raises(ReplayError, match="copy was deleted and created again"):
        check_topic_id(DOCUMENT, "another")

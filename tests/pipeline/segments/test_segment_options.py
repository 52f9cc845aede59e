import pytest

from tailrace.pipeline.segments.segment_columns import BATCH_COLUMNS, RECORD_COLUMNS
from tailrace.pipeline.segments.segment_options import OptionError, offset_for, read_options


def test_the_names_are_case_insensitive_as_in_spark() -> None:
    options = read_options({"PATH": "/data/spu-1, file:///data/spu-2/", "startingoffsets": "12", "Partitions": "0,2-4"})
    assert options.paths == ("/data/spu-1", "/data/spu-2")
    assert options.partitions == (0, 2, 3, 4)
    assert offset_for(options.starting_offsets, "any", 7) == 12


def test_several_paths_are_taken_as_spark_hands_them_over() -> None:
    assert read_options({"paths": '["/a,b","/c"]'}).paths == ("/a,b", "/c")


def test_offsets_are_given_as_to_the_kafka_source() -> None:
    options = read_options({"path": "/d", "startingOffsets": '{"events":{"0":23,"1":-2}}', "endingOffsets": "latest"})
    assert [offset_for(options.starting_offsets, "events", partition) for partition in range(3)] == [23, None, None]
    assert offset_for(options.starting_offsets, "other", 0) is None
    assert offset_for(options.ending_offsets, "events", 0) is None


def test_times_are_milliseconds_or_text() -> None:
    for text in ("1767225600000", "2026-01-01T00:00:00Z", "2026-01-01", "2026-01-01T01:00:00+01:00"):
        assert read_options({"path": "/d", "asOf": text}).as_of_ms == 1767225600000


def test_columns_are_those_of_records_or_of_batches() -> None:
    assert read_options({"path": "/d"}).columns == tuple(name for name in RECORD_COLUMNS if name != "headers")
    assert read_options({"path": "/d", "includeHeaders": "true"}).columns == tuple(RECORD_COLUMNS)
    assert read_options({"path": "/d", "columns": "OFFSET, key"}).columns == ("offset", "key")
    header_only = read_options({"path": "/d", "headerOnly": "true"})
    assert header_only.columns == tuple(BATCH_COLUMNS)
    assert header_only.entry_types == ("event", "hole", "bridge", "marker")
    assert not header_only.verify_checksums


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "path is missing"),
        ({"path": "s3://bucket/data"}, "not a local path"),
        ({"path": "/d", "startOffset": "3"}, "has no option startOffset"),
        ({"path": "/d", "startingOffsets": "-3"}, "startingOffsets cannot be '-3'"),
        ({"path": "/d", "startingOffsets": "latest"}, "startingOffsets cannot be 'latest': it takes earliest"),
        ({"path": "/d", "endingOffsets": '{"events":{"0":-2}}'}, "endingOffsets cannot be"),
        ({"path": "/d", "endingOffsets": "[]"}, "endingOffsets cannot be"),
        ({"path": "/d", "asOf": "yesterday"}, "asOf cannot be 'yesterday': it takes milliseconds since 1970, or"),
        ({"path": "/d", "headerOnly": "yes"}, "headerOnly cannot be 'yes': it takes true or false"),
        ({"path": "/d", "partitions": "4-2"}, "partitions cannot be '4-2'"),
        ({"path": "/d", "partitions": "0-9999999"}, "at most"),
        ({"path": "/d", "topicId": "events"}, "topicId cannot be 'events'"),
        ({"path": "/d", "columns": "key,size"}, "columns cannot be 'size'"),
        ({"path": "/d", "columns": "key,KEY"}, "twice"),
        ({"path": "/d", "columns": "key", "includeHeaders": "true"}, "add headers to columns"),
        ({"path": "/d", "entryTypes": "events"}, "entryTypes cannot be 'events'"),
        ({"path": "/d", "copies": "two"}, "copies cannot be 'two': it takes one or all"),
        ({"path": "/d", "maxSplitBytes": "1"}, "maxSplitBytes cannot be '1'"),
        ({"path": "/d", "startingOffsets": "3", "startingTimestamp": "3"}, "both say where to begin"),
        ({"path": "/d", "headerOnly": "true", "latestByKey": "true"}, "keys are not read"),
        ({"path": "/d", "maxOffsetsPerTrigger": "5"}, "for streams only"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_takes(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_options(given, is_streaming=False)


@pytest.mark.parametrize("name", ["latestByKey", "asOf", "endingOffsets", "endingTimestamp", "copies"])
def test_a_stream_refuses_what_needs_an_end(name: str) -> None:
    value = {"latestByKey": "true", "copies": "all"}.get(name, "5")
    with pytest.raises(OptionError, match=f"{name} has no meaning in a stream"):
        read_options({"path": "/d", name: value}, is_streaming=True)

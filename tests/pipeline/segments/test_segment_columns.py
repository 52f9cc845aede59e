from tailrace.pipeline.segments.segment_columns import RECORD_COLUMNS, default_columns, schema_text


def test_the_first_columns_are_those_of_the_kafka_source() -> None:
    assert list(RECORD_COLUMNS)[:8] == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip


def test_headers_are_a_column_on_demand() -> None:
    assert "headers" in default_columns(header_only=False, include_headers=True)
    assert "headers" not in default_columns(header_only=False, include_headers=False)


def test_the_schema_has_the_columns_in_their_order() -> None:
    assert schema_text(["offset", "key"], header_only=False) == "offset bigint, key binary"
    assert schema_text(["records"], header_only=True) == "records int"

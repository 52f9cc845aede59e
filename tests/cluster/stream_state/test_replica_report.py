import pytest

from tailrace.cluster.stream_state.replica_report import (
    ReplicaReport,
    ReplicaState,
    ReportError,
    ShardReport,
    ShardState,
    decode_report,
    encode_report,
)


def test_a_report_is_json_without_defaults() -> None:
    shard = ShardReport(shard=3, state=ShardState.RETRYING, marked=7, offset=7, attempt=2, error="ValueError: no")
    report = ReplicaReport(topic="t", group="g", replica="replica1", state=ReplicaState.MEMBER, shards=(shard,))
    text = encode_report(report)
    assert (
        '"shards":[{"shard":3,"state":"retrying","marked":7,"offset":7,"attempt":2,"error":"ValueError: no"}]' in text
    )
    assert "events" not in text
    assert decode_report(text) == report


def test_fields_of_newer_versions_are_ignored_and_other_texts_refused() -> None:
    assert decode_report('{"topic":"t","group":"g","replica":"r","new":1}') == ReplicaReport(
        topic="t", group="g", replica="r"
    )
    for text in ("", "[]", '{"topic":"t"}', '{"topic":"t","group":"g","replica":"r","shards":[{"shard":"x"}]}'):
        with pytest.raises(ReportError):
            decode_report(text)

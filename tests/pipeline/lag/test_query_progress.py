import json

import pytest
from spark_progress import FILE_SOURCE, ID, RATE_SOURCE, RUN, kafka_source, progress_document

from tailrace.client.log_facts import Partition
from tailrace.pipeline.lag.query_progress import ProgressError, read_offset_log, read_progress, read_query_id

LOG_HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1767607200000,"conf":{"spark.sql.shuffle.partitions":"2"}}\n'


def test_the_end_offsets_of_a_batch_are_where_the_query_is() -> None:
    source = kafka_source({"orders": {"0": 10, "1": 7}}, start={"orders": {"0": 5, "1": 7}})
    progress = read_progress(progress_document(source))
    assert progress.positions == {Partition("orders", 0): 10, Partition("orders", 1): 7}
    assert (progress.query_id, progress.run_id, progress.name, progress.batch_id) == (ID, RUN, "billing", 3)


def test_a_query_without_a_name_has_none() -> None:
    assert read_progress(progress_document(name=None)).name == ""
    without = json.loads(progress_document())
    del without["name"]
    assert read_progress(json.dumps(without)).name == ""


@pytest.mark.parametrize("end", [json.dumps({"orders": {"0": 10}}), {"orders": {"0": 10}}])
def test_offsets_may_be_text_as_in_the_classes_of_pyspark(end: object) -> None:
    assert read_progress(progress_document(kafka_source(end))).positions == {Partition("orders", 0): 10}  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [None, "null", "None", "", {}])
def test_a_source_that_has_read_nothing_is_nowhere(end: object) -> None:
    assert read_progress(progress_document(kafka_source(end))).positions == {}  # type: ignore[arg-type]


def test_other_kinds_of_sources_are_skipped() -> None:
    source = kafka_source({"orders": {"0": 10}})
    progress = read_progress(progress_document(RATE_SOURCE, source, FILE_SOURCE))
    assert progress.positions == {Partition("orders", 0): 10}


def test_a_partition_that_is_read_twice_is_where_the_slower_source_is() -> None:
    sources = kafka_source({"orders": {"0": 10, "1": 3}}), kafka_source({"orders": {"0": 6}, "refunds": {"0": 1}})
    assert read_progress(progress_document(*sources)).positions == {
        Partition("orders", 0): 6,
        Partition("orders", 1): 3,
        Partition("refunds", 0): 1,
    }


def test_placeholders_for_unknown_offsets_are_no_positions() -> None:
    assert read_progress(progress_document(kafka_source({"orders": {"0": -2, "1": -1}}))).positions == {}


@pytest.mark.parametrize("document", ["", "{", "[]", "{}", progress_document(kafka_source({"orders": {"x": 1}}))])
def test_what_is_no_progress_is_refused_with_a_sentence(document: str) -> None:
    with pytest.raises(ProgressError, match="cannot be read"):
        read_progress(document)


def test_the_log_of_offsets_has_a_line_for_each_source() -> None:
    text = LOG_HEAD + '{"orders":{"1":7,"0":10}}\n5\n-\n{"logOffset":2}\n{"refunds":{"0":1}}'
    assert read_offset_log(text, "offsets/3") == {
        Partition("orders", 0): 10,
        Partition("orders", 1): 7,
        Partition("refunds", 0): 1,
    }


def test_the_log_of_offsets_may_name_the_sources() -> None:
    text = LOG_HEAD.replace("v1", "v2") + 'shop_1:{"orders":{"0":10}}\nrate:5\nidle:-\n1:{"refunds":{"0":3}}'
    assert read_offset_log(text, "offsets/3") == {Partition("orders", 0): 10, Partition("refunds", 0): 3}


def test_the_log_of_offsets_of_a_query_over_segments_names_no_topic() -> None:
    positions = {ID: {"0": 5}}
    assert read_offset_log(LOG_HEAD + json.dumps(positions), "offsets/3") == {}, "PySpark writes it with spaces"
    named_like_an_id = json.dumps(positions, separators=(",", ":"))
    assert read_offset_log(LOG_HEAD + named_like_an_id, "offsets/3") == {Partition(ID, 0): 5}, "Kafka's source"


@pytest.mark.parametrize("text", ["", "v3\n{}\n", "garbage"])
def test_a_log_of_another_format_is_refused(text: str) -> None:
    with pytest.raises(ProgressError, match="offsets/3 is not a log of offsets in the format v1 or v2"):
        read_offset_log(text, "offsets/3")


def test_the_metadata_of_a_checkpoint_has_the_id() -> None:
    assert read_query_id(f'{{"id":"{ID}"}}', "metadata") == ID
    for document in ("", "{}", "[]", '{"id":5}'):
        with pytest.raises(ProgressError, match="metadata is not the metadata of a checkpoint"):
            read_query_id(document, "metadata")

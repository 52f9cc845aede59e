import argparse

from tailrace.cli.records.consuming.consume_request import ConsumeRequest
from tailrace.cli.records.consuming.record_filters import record_filter
from tailrace.cli.records.consuming.record_output import RecordOutput, value_format
from tailrace.cli.records.consuming.topic_choice import TopicChoice
from tailrace.client.log_facts import Partition
from tailrace.protocol.batches.records import Record
from tailrace.runtime.process import write_output


def test_every_reader_wants_what_the_options_say() -> None:
    arguments = argparse.Namespace(count=3, uncommitted=True, isolation="read_committed", transactions=False)
    selected = record_filter(["a"], [])
    assert selected is not None
    output = RecordOutput(value_format, write_output)
    request = ConsumeRequest(arguments, TopicChoice(["orders"]), selected.matches, output, 0)
    reader = request.reader({Partition("orders", 0): 5}, None)
    assert (reader.wanted, reader.count, reader.uncommitted) == ({Partition("orders", 0): 5}, 3, True)
    assert (reader.only_stable, reader.shows_transactions) == (True, False)
    assert reader.matches is not None
    assert [reader.matches(Record(0, 0, key, b"")) for key in (b"a", b"b")] == [True, False]

import json

import pytest

from tailrace.cli.groups.group_reset_plan import (
    Wish,
    offsets_of_file,
    planned,
    shift_by,
    to_current,
    to_earliest,
    to_found,
    to_latest,
    to_offset,
)
from tailrace.cli.groups.group_tables import group_document
from tailrace.cli.options.document_files import DocumentError
from tailrace.client.group_facts import Group, Progress
from tailrace.client.log_facts import LogEnds, Partition

ORDERS = Partition("orders", 0)
LOG = LogEnds(10, 50)
AT_20 = Progress(ORDERS, 20, log=LOG)
NOWHERE = Progress(ORDERS, log=LOG)


@pytest.mark.parametrize(
    ("progress", "wish", "after", "note"),
    [
        (AT_20, to_earliest, 10, ""),
        (AT_20, to_latest, 50, ""),
        (AT_20, to_current, 20, ""),
        (Progress(ORDERS, 3, log=LOG), to_current, 10, "3 is before the first record, 10"),
        (NOWHERE, to_current, 50, "nothing was committed"),
        (AT_20, to_offset(11), 11, ""),
        (AT_20, to_offset(9), 10, "9 is before the first record, 10"),
        (AT_20, to_offset(51), 50, "51 is beyond the log end, 50"),
        (AT_20, to_offset(50), 50, ""),
        (AT_20, shift_by(-5), 15, ""),
        (AT_20, shift_by(-15), 10, "5 is before the first record, 10"),
        (AT_20, shift_by(5), 25, ""),
        (NOWHERE, shift_by(5), 50, "nothing was committed"),
        (AT_20, to_found({ORDERS: 33}), 33, ""),
        (AT_20, to_found({ORDERS: -1}), 50, "all records are older"),
    ],
)
def test_where_a_group_goes_on(progress: Progress, wish: Wish, after: int, note: str) -> None:
    move = planned(progress, wish)
    assert (move.before, move.after, move.note) == (progress.committed, after, note)
    assert move.lag_after == 50 - after


def test_the_lag_before_is_not_known_where_nothing_was_committed() -> None:
    assert planned(AT_20, to_latest).lag_before == 30
    assert planned(NOWHERE, to_latest).lag_before is None


def test_a_file_is_what_describe_has_printed() -> None:
    progress = [AT_20, Progress(Partition("orders", 1), log=LOG)]
    group = group_document(Group("g", "classic", "consumer", "Empty", 1), progress, 0)
    for document in (group, [group]):
        assert offsets_of_file(json.dumps(document), "file") == {ORDERS: 20}


def test_a_file_is_a_list_of_offsets_or_lines_as_kafkas_tool_exports_them() -> None:
    expected = {ORDERS: 7, Partition("payments", 12): 0}
    yaml = "- {topic: orders, partition: 0, offset: 7}\n- {topic: payments, partition: 12, offset: 0}\n"
    assert offsets_of_file(yaml, "file") == expected
    assert offsets_of_file('"orders",0,7\n\npayments, 12, 0\n', "file") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file has no document|must have one document"),
        ("[]", "the file has no offset"),
        ("orders", "line 1: 'orders' is not topic,partition,offset"),
        ("orders,0,7\norders,1", "line 2: 'orders,1' is not topic,partition,offset"),
        ('"billing","orders",0,7', "line 1: .* is not topic,partition,offset"),
        ("- {group: a, partitions: []}\n- {group: b, partitions: []}", "row 1: the file has several groups"),
        ('[{"topic": "orders", "partition": 0, "offset": null}]', "the file has no offset"),
        ("orders,0,7\norders,0,8", "row 2: orders/0 occurs twice"),
        ("[7]", "row 1: expected topic, partition and offset"),
        ("- {partition: 0, offset: 7}", "row 1: topic: None is not the name of a topic"),
        ("- {topic: orders, partition: -1, offset: 7}", "row 1: partition: -1 is not the number of a partition"),
        ("- {topic: orders, partition: true, offset: 7}", "row 1: partition: True is not the number"),
        ("- {topic: orders, partition: 0, offset: '7'}", "row 1: offset: '7' is not an offset"),
        ("- {topic: orders, partition: 0, offset: 9223372036854775808}", "row 1: offset: 9223372036854775808 is no"),
    ],
)
def test_what_a_file_must_not_say(text: str, why: str) -> None:
    with pytest.raises(DocumentError, match=why) as caught:
        offsets_of_file(text, "backup.yaml")
    assert str(caught.value).startswith("backup.yaml: ")

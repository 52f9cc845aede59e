"""The checks that the chaos tests of groups rely on find what they must find."""

from chaos.group_history import GroupHistory
from chaos.offset_watch import fallen

PLACE = ("work", 0)


def history(*told):
    made = GroupHistory("group")
    for member, event, at, what in told:
        made.on_report(member, {"event": event, "at": at} | what)
    return made


def partitions(*places):
    return {"partitions": [list(place) for place in places]}


def records(*offsets):
    return {"records": [[*PLACE, offset, f"value-{offset}"] for offset in offsets]}


def committed(offset):
    return {"offsets": [[*PLACE, offset]]}


def test_a_partition_may_go_from_one_member_to_the_next():
    made = history(
        ("a", "assigned", 1.0, partitions(PLACE)),
        ("a", "records", 1.1, records(0, 1)),
        ("a", "committed", 1.2, committed(2)),
        ("b", "assigned", 2.0, partitions(PLACE)),
        ("b", "records", 2.1, records(2)),
        ("a", "revoked", 1.9, partitions(PLACE)),  # the report arrives late
    )
    assert (made.contradictions, made.overlaps()) == ([], [])
    assert (made.floors(), made.values) == ({PLACE: 2}, {"value-0", "value-1", "value-2"})


def test_two_owners_are_found():
    made = history(
        ("a", "assigned", 1.0, partitions(PLACE)),
        ("b", "assigned", 2.0, partitions(PLACE)),
        ("a", "revoked", 2.1, partitions(PLACE)),
    )
    assert len(made.overlaps()) == 1


def test_an_owner_that_never_released_a_partition_is_found_unless_it_has_ended():
    told = [("a", "assigned", 1.0, partitions(PLACE)), ("b", "assigned", 2.0, partitions(PLACE))]
    assert len(history(*told).overlaps()) == 1
    assert history(*told, ("a", "ended", 1.5, {})).overlaps() == []


def test_starting_below_the_committed_offset_is_found():
    made = history(
        ("a", "assigned", 1.0, partitions(PLACE)),
        ("a", "committed", 1.2, committed(5)),
        ("b", "assigned", 2.0, partitions(PLACE)),
        ("b", "records", 2.1, records(4)),
    )
    assert len(made.contradictions) == 1


def test_reading_twice_is_found_only_while_a_member_keeps_the_partition():
    made = history(
        ("a", "assigned", 1.0, partitions(PLACE)),
        ("a", "records", 1.1, records(0, 1)),
        ("a", "assigned", 2.0, partitions(PLACE)),
        ("a", "records", 2.1, records(0)),
    )
    assert made.contradictions == []
    made.on_report("a", {"event": "records", "at": 2.2} | records(0))
    assert len(made.contradictions) == 1


def test_reading_a_partition_without_owning_it_is_found():
    assert len(history(("a", "records", 1.0, records(0))).contradictions) == 1


def test_commits_that_are_lost_or_moved_back_are_found():
    assert fallen({PLACE: 5}, {PLACE: 5}, {PLACE: 4}) == []
    assert len(fallen({PLACE: 5}, {PLACE: 6}, {})) == 1
    assert len(fallen({PLACE: 5}, {}, {PLACE: 6})) == 1
    assert len(fallen({}, {PLACE: 0}, {})) == 1

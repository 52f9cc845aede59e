from dataclasses import fields

from tailrace.broker.groups.counts import GroupCounts


def test_nothing_has_been_counted_at_the_start() -> None:
    counts = GroupCounts()
    assert not any(getattr(counts, each.name) for each in fields(counts))

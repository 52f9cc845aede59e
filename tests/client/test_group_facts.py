from tailrace.client.group_facts import Group, Member, Progress, total_lag
from tailrace.client.log_facts import LogEnds, Partition

HERE = Partition("orders", 0)
LOG = LogEnds(10, 50)


def test_the_lag_is_what_lies_between_the_commit_and_the_end() -> None:
    assert Progress(HERE, 20, log=LOG).lag == 30
    assert Progress(HERE, 60, log=LOG).lag == 0  # the log was cut
    assert Progress(HERE, None, log=LOG).lag is None
    assert Progress(HERE, 20).lag is None


def test_the_lag_in_seconds_is_the_age_of_the_first_unread_record() -> None:
    assert Progress(HERE, 20, log=LOG, unread_since_ms=7_500).lag_seconds(10_000) == 2.5
    assert Progress(HERE, 20, log=LOG, unread_since_ms=12_000).lag_seconds(10_000) == 0
    assert Progress(HERE, 50, log=LOG).lag_seconds(10_000) == 0
    assert Progress(HERE, 20, log=LOG).lag_seconds(10_000) is None


def test_a_total_counts_what_is_known() -> None:
    known = [
        Progress(HERE, 20, log=LOG),
        Progress(Partition("orders", 1)),
        Progress(Partition("orders", 2), 49, log=LOG),
    ]
    assert total_lag(known) == 31
    assert total_lag([Progress(HERE)]) is None


def test_a_member_is_named_as_a_person_knows_it() -> None:
    member = Member("consumer-1-7c", "billing", "/10.0.0.7", owned=frozenset({HERE}))
    assert member.whereabouts == "consumer-1-7c (billing at 10.0.0.7)"
    assert Member("x-7c", "billing", "/10.0.0.7", "worker-1").name == "worker-1"
    assert Group("g", "classic", "consumer", "Stable", 1, members=(member,)).owners() == {HERE: member}

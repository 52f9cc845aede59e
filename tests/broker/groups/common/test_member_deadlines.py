import math

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.groups.common.member_deadlines import MemberDeadlines


def test_a_session_ends_without_heartbeats() -> None:
    sessions = MemberDeadlines()
    assert sessions.deadline == math.inf
    sessions.set("a", 10.0)
    sessions.set("b", 12.0)
    assert sessions.deadline == 10.0
    assert sessions.take_due(9.9) == []
    assert sessions.take_due(12.0) == ["a", "b"]
    assert sessions.deadline == math.inf


def test_a_heartbeat_moves_the_end_and_leaves_the_queue_alone() -> None:
    sessions = MemberDeadlines()
    sessions.set("a", 10.0)
    for end in range(11, 1000):
        sessions.set("a", float(end))
    assert len(sessions._queue) == 1 and sessions.deadline == 10.0, "early, and never late"
    assert sessions.take_due(500.0) == []
    assert sessions.deadline == 999.0


def test_a_shorter_session_ends_earlier() -> None:
    sessions = MemberDeadlines()
    sessions.set("a", 100.0)
    sessions.set("a", 10.0)
    assert sessions.deadline == 10.0
    assert sessions.take_due(10.0) == ["a"]
    assert sessions.take_due(1000.0) == []


def test_a_stopped_session_does_not_end() -> None:
    sessions = MemberDeadlines()
    sessions.set("a", 10.0)
    sessions.clear("a")
    sessions.clear("never there")
    assert sessions.take_due(20.0) == []
    sessions.set("a", 30.0)
    assert sessions.take_due(30.0) == ["a"]


def test_members_that_come_and_go_leave_no_entries() -> None:
    sessions = MemberDeadlines()
    for number in range(10_000):
        sessions.set(f"m{number}", 1000.0)
        sessions.clear(f"m{number}")
    assert len(sessions._queue) < 200


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 20), st.booleans()), max_size=60))
def test_each_session_ends_at_its_last_end(steps: list[tuple[str, int, bool]]) -> None:
    sessions = MemberDeadlines()
    ends: dict[str, float] = {}
    for now, (member_id, seconds, stops) in enumerate(steps):
        if stops:
            sessions.clear(member_id)
            ends.pop(member_id, None)
        else:
            sessions.set(member_id, float(now + seconds))
            ends[member_id] = float(now + seconds)
        assert sessions.deadline <= min(ends.values(), default=math.inf)
        ended = sessions.take_due(float(now))
        assert ended == sorted((each for each in ends if ends[each] <= now), key=lambda each: (ends[each], each))
        for each in ended:
            del ends[each]

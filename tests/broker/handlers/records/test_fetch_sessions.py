from collections.abc import Iterable

import pytest

from tailrace.broker.handlers.records.fetch_sessions import (
    UNUSED_SECONDS_MIN,
    FetchedPartition,
    FetchSession,
    FetchSessions,
    PartitionKey,
)
from tailrace.cluster.topic_names import CHARACTERS_MAX
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.chance import RandomChance


def _partition(number: int, offset: int = 0, topic: str = "t") -> FetchedPartition:
    return FetchedPartition((topic, number), offset, bytes_max=1000, current_leader_epoch=-1, last_fetched_epoch=-1)


def _sessions(sessions_max: int = 10, partitions_max: int = 100) -> FetchSessions:
    return FetchSessions(RandomChance(1), sessions_max, partitions_max)


def _create(sessions: FetchSessions, numbers: Iterable[int] = (0,), now: float = 0.0) -> FetchSession:
    session = sessions.create([_partition(number) for number in numbers], uses_topic_ids=False, now=now)
    assert session is not None
    return session


def _keys(session: FetchSession) -> list[PartitionKey]:
    return [partition.key for partition in session]


def test_a_session_remembers_what_was_asked_for() -> None:
    sessions = _sessions()
    session = _create(sessions, (0, 1))
    assert session.id > 0
    resumed = sessions.resume(session.id, 1, uses_topic_ids=False, now=0.0)
    resumed.update([_partition(1, offset=50), _partition(2)], [("t", 0)])
    assert _keys(resumed) == [("t", 1), ("t", 2)]
    assert [partition.fetch_offset for partition in resumed] == [50, 0]


def test_a_partition_that_is_wanted_and_forgotten_in_one_request_is_forgotten() -> None:
    session = _create(_sessions(), (0, 1))
    session.update([_partition(0, offset=7), _partition(2)], [("t", 0), ("t", 2)])
    assert _keys(session) == [("t", 1)]


def test_each_request_raises_the_epoch_of_the_session_by_one() -> None:
    sessions = _sessions()
    session = _create(sessions)
    for epoch in (1, 2, 3):
        assert sessions.resume(session.id, epoch, uses_topic_ids=False, now=0.0) is session
    for wrong in (3, 5, 0, -1):
        with pytest.raises(KafkaError) as refused:
            sessions.resume(session.id, wrong, uses_topic_ids=False, now=0.0)
        assert refused.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.resume(session.id, 4, uses_topic_ids=False, now=0.0) is session, "a refused request changes nothing"


def test_epochs_wrap_to_one_since_zero_asks_for_a_new_session() -> None:
    sessions = _sessions()
    session = _create(sessions)
    session.epoch = 2**31 - 1
    assert sessions.resume(session.id, 1, uses_topic_ids=False, now=0.0).epoch == 1


def test_an_unknown_session_is_an_error() -> None:
    sessions = _sessions()
    session = _create(sessions)
    sessions.close(session.id)
    sessions.close(session.id)
    with pytest.raises(KafkaError) as refused:
        sessions.resume(session.id, 1, uses_topic_ids=False, now=0.0)
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_uses_either_names_or_ids() -> None:
    sessions = _sessions()
    session = _create(sessions)
    with pytest.raises(KafkaError) as refused:
        sessions.resume(session.id, 1, uses_topic_ids=True, now=0.0)
    assert refused.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_only_news_is_sent() -> None:
    partition = _partition(0)
    assert partition.note_told(0, 0, 0), "the first answer names everything"
    assert not partition.note_told(0, 0, 0)
    assert partition.note_told(1, 0, 0)
    assert partition.note_told(1, 1, 0)
    assert not partition.note_told(1, 1, 0)


def test_an_error_is_repeated_and_its_end_is_told_once() -> None:
    partition = _partition(0)
    partition.note_told(5, 0, 0)
    assert partition.note_told(5, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert partition.note_told(5, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert partition.note_told(5, 0, 0)
    assert not partition.note_told(5, 0, 0)


def test_partitions_that_were_served_come_last_next_time() -> None:
    session = _create(_sessions(), range(4))
    session.move_to_end([("t", 0), ("t", 2), ("gone", 9)])
    assert _keys(session) == [("t", 1), ("t", 3), ("t", 0), ("t", 2)]


def test_the_least_recently_used_session_makes_room_after_a_while() -> None:
    sessions = _sessions(sessions_max=2)
    old, used = _create(sessions), _create(sessions, now=1.0)
    sessions.resume(old.id, 1, uses_topic_ids=False, now=2.0)
    later = 1.0 + UNUSED_SECONDS_MIN
    assert sessions.create([_partition(0)], uses_topic_ids=False, now=later - 0.1) is None
    _create(sessions, now=later)
    assert sessions.create([_partition(0)], uses_topic_ids=False, now=later) is None, "the other was used after that"
    assert len(sessions) == 2
    assert sessions.resume(old.id, 2, uses_topic_ids=False, now=later) is old
    with pytest.raises(KafkaError):
        sessions.resume(used.id, 1, uses_topic_ids=False, now=later)


def test_there_is_no_session_where_it_does_not_pay() -> None:
    assert _sessions().create([], uses_topic_ids=False, now=0.0) is None
    assert _sessions(sessions_max=0).create([_partition(0)], uses_topic_ids=False, now=0.0) is None
    too_many = [_partition(number) for number in range(4)]
    assert _sessions(partitions_max=3).create(too_many, uses_topic_ids=False, now=0.0) is None


def test_all_sessions_together_remember_a_bounded_number_of_partitions() -> None:
    sessions = _sessions(partitions_max=10)
    first, second = _create(sessions, range(4)), _create(sessions, range(4), now=1.0)
    assert sessions.create([_partition(number) for number in range(4)], uses_topic_ids=False, now=1.0) is None
    third = _create(sessions, range(4), now=UNUSED_SECONDS_MIN)
    assert (len(sessions), sessions.held_partitions) == (2, 8), "the first has made room"
    now = UNUSED_SECONDS_MIN + 1.0
    sessions.update(sessions.resume(third.id, 1, uses_topic_ids=False, now=now), map(_partition, range(10, 14)), ())
    assert (len(sessions), sessions.held_partitions) == (1, 8), "and now the second"
    sessions.update(sessions.resume(third.id, 2, uses_topic_ids=False, now=now), [_partition(9)], [("t", 0), ("t", 1)])
    assert sessions.held_partitions == 7
    for session in (first, second, third):
        sessions.close(session.id)
    assert (len(sessions), sessions.held_partitions) == (0, 0)


def test_a_session_that_grows_without_bound_is_closed() -> None:
    """A consumer may name partitions that do not exist, in one request after another."""
    sessions = _sessions(partitions_max=10)
    other, session = _create(sessions), _create(sessions)
    with pytest.raises(KafkaError) as refused:
        for epoch in range(1, 100):
            sessions.update(sessions.resume(session.id, epoch, uses_topic_ids=False, now=0.0), [_partition(epoch)], ())
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.held_partitions) == (1, 1), "the other one is still used"
    assert other.id != session.id


def test_no_two_sessions_have_one_id() -> None:
    class Repeating(RandomChance):
        def below(self, limit: int) -> int:
            return super().below(3)

    sessions = FetchSessions(Repeating(1), 3, 100)
    assert {_create(sessions).id for _ in range(3)} == {1, 2, 3}


def test_names_that_no_topic_can_have_are_not_kept() -> None:
    sessions = _sessions()
    longest, longer = _partition(0, topic="t" * CHARACTERS_MAX), _partition(0, topic="t" * (CHARACTERS_MAX + 1))
    assert sessions.create([longest, longer], uses_topic_ids=False, now=0.0) is None
    session = _create(sessions)
    sessions.update(session, [longest], [])
    with pytest.raises(KafkaError) as refused:
        sessions.update(session, [longer], [])
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.held_partitions) == (0, 0)

import pytest
from assigning import TOPICS, partitions
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.groups.assignment.assignments import TopicPartition
from tailrace.broker.groups.common.coordinator_records import decode_record, encode_record
from tailrace.broker.groups.consumer.consumer_member import ClassicProtocols, CurrentAssignment, MemberState, Profile
from tailrace.broker.groups.consumer.consumer_records import current_from, current_record, profile_from, profile_record

TEXTS = st.text(max_size=5)
MAYBE = st.none() | TEXTS
PROFILES = st.builds(
    Profile,
    client_id=TEXTS,
    host=TEXTS,
    instance_id=MAYBE,
    rack_id=MAYBE,
    topic_names=st.frozensets(TEXTS),
    topic_pattern=TEXTS,
    rebalance_timeout_ms=st.integers(-1, 2**31 - 1),
    assignor=MAYBE,
    classic=st.none()
    | st.builds(ClassicProtocols, st.integers(0, 2**31 - 1), st.lists(st.tuples(TEXTS, st.binary())).map(tuple)),
)
EPOCHS = st.integers(-2, 2**31 - 1)
SINCE = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(list(TOPICS.values())), st.integers(0, 20)), st.integers(0, 9)
)
ASSIGNMENTS = st.builds(CurrentAssignment, EPOCHS, EPOCHS, st.sampled_from(MemberState), SINCE, SINCE)


@settings(deadline=None, max_examples=50)
@given(PROFILES)
def test_what_a_member_says_is_read_as_it_was_written(profile: Profile) -> None:
    record = decode_record(*encode_record(profile_record("g", "m", profile)))
    assert record is not None
    assert profile_from(record.value) == profile


@settings(deadline=None, max_examples=50)
@given(ASSIGNMENTS)
def test_what_a_member_has_is_read_as_it_was_written(current: CurrentAssignment) -> None:
    record = decode_record(*encode_record(current_record("g", "m", current)))
    assert record is not None
    assert current_from(record.value) == current


def test_equal_sets_are_equal_bytes() -> None:
    there = dict.fromkeys(sorted(partitions("a0", "a9", "b3", "c1")), 7)
    back = dict.fromkeys(sorted(partitions("a0", "a9", "b3", "c1"), reverse=True), 7)
    first = encode_record(current_record("g", "m", CurrentAssignment(assigned=there)))
    assert encode_record(current_record("g", "m", CurrentAssignment(assigned=back))) == first


def test_partitions_without_epochs_have_the_member_epoch() -> None:
    value = current_record("g", "m", CurrentAssignment(5, assigned=dict.fromkeys(partitions("a0"), 3))).value
    value.assigned_partitions[0].assignment_epochs = None
    assert current_from(value).assigned == dict.fromkeys(partitions("a0"), 5)


@pytest.mark.parametrize("state", [3, 100, -1])
def test_a_state_of_a_later_version_is_known_to_be_unknown(state: int) -> None:
    value = current_record("g", "m", CurrentAssignment()).value
    value.state = state
    assert current_from(value).state is MemberState.UNKNOWN

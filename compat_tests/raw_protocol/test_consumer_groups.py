"""KIP-848 groups request by request: all responses in every version, when everything goes well and when it does not.

A broker may assign only once a second, which is the default. Members therefore send heartbeats until they have their
assignment.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest
from raw import connect
from raw_consumer_groups import (
    FENCED_MEMBER_EPOCH,
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    LEAVE_EPOCH,
    STALE_MEMBER_EPOCH,
    STATIC_LEAVE_EPOCH,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
    UNSUPPORTED_VERSION,
    ConsumerMember,
)
from raw_groups import (
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Member,
    Synced,
    subscription,
)
from topics import CreateTopic

ALL_GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
OPERATIONS_NOT_ASKED_FOR = -(2**31)
HEARTBEAT_INTERVAL_MS = 5_000


class NewMember(Protocol):
    def __call__(self, member_id: str, **fields: Any) -> ConsumerMember: ...


class NewClassicMember(Protocol):
    def __call__(self, **fields: Any) -> Member: ...


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    return create_topic(partitions=6)


@pytest.fixture
def member(bootstrap: str, group: str, topic: str) -> Iterator[NewMember]:
    """Yields a function that makes members, which subscribe to `topic` by default."""
    with ExitStack() as stack:
        yield lambda member_id, **fields: ConsumerMember(
            stack.enter_context(connect(bootstrap)),
            **{"group": group, "topics": (topic,), **fields},
            member_id=member_id,
        )


@pytest.fixture
def classic(bootstrap: str, group: str, topic: str) -> Iterator[NewClassicMember]:
    """Yields a function that makes classic members, which subscribe to `topic` and keep no partitions while they
    rejoin."""
    with ExitStack() as stack:
        yield lambda **fields: Member(
            stack.enter_context(connect(bootstrap)),
            **{"group": group, "protocols": [("range", subscription(topic))], **fields},
        )


def shared(*members: ConsumerMember) -> bool:
    """Whether all members have the group's epoch, and own what it assigns to them."""
    described = members[0].describe()
    return described.state == "Stable" and len(described.members) == len(members)


# a single member


@pytest.mark.parametrize("version", [0, 1])
def test_the_first_member_has_everything_with_its_first_response(member: NewMember, version: int) -> None:
    m = member("m")
    joined = m.join(version)
    assert joined[:4] == (NONE, None, "m", joined.epoch)
    assert 0 < joined.interval_ms <= HEARTBEAT_INTERVAL_MS, "a broker may want to hear of new members sooner"
    assert m.numbers == [0, 1, 2, 3, 4, 5]
    again = m.heartbeat(version)
    assert again == (NONE, None, "m", joined.epoch, again.interval_ms, None)
    assert m.heartbeat(version, full=True).assignment == m.owned, "a full heartbeat gets a full response"


def test_the_broker_may_choose_ids_for_clients_of_the_first_version(member: NewMember) -> None:
    m = member("")
    assert m.join(version=0).member_id
    assert m.heartbeat(version=0).assignment is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"group": ""}, "GroupId can't be empty."),
        ({"group": "  "}, "GroupId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"instance": ""}, "InstanceId can't be empty."),
        ({"rack": ""}, "RackId can't be empty."),
        ({"rebalance_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": frozenset({(bytes(16), 0)})}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"topics": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"epoch": -3}, "MemberEpoch is invalid."),
        ({"epoch": STATIC_LEAVE_EPOCH}, "InstanceId can't be null."),
    ],
)
def test_invalid_heartbeats_are_refused_with_a_reason(member: NewMember, changed: dict[str, Any], message: str) -> None:
    assert member("m").ask_to_join(**changed)[:2] == (INVALID_REQUEST, message)


def test_assignors_are_those_of_the_broker(member: NewMember) -> None:
    m = member("m")
    assert m.ask_to_join(assignor="mine")[:2] == (
        UNSUPPORTED_ASSIGNOR,
        "ServerAssignor mine is not supported. Supported assignors: uniform, range.",
    )
    m.assignor = "range"
    m.join()
    assert m.describe().assignor == "range"


def test_a_group_that_nobody_joined_does_not_exist(member: NewMember) -> None:
    m = member("m")
    assert m.ask(epoch=5).error == GROUP_ID_NOT_FOUND
    assert m.ask(epoch=LEAVE_EPOCH).error == GROUP_ID_NOT_FOUND
    described = m.describe()
    assert (described.error, described.group, described.members) == (GROUP_ID_NOT_FOUND, m.group, [])


def test_epochs_are_checked(member: NewMember) -> None:
    m = member("m")
    m.join()
    assert m.ask(epoch=m.epoch + 1).error == FENCED_MEMBER_EPOCH
    assert m.ask(epoch=m.epoch - 1).error == FENCED_MEMBER_EPOCH
    assert m.ask(member_id="stranger").error == UNKNOWN_MEMBER_ID
    assert m.ask(member_id="stranger", epoch=LEAVE_EPOCH).error == UNKNOWN_MEMBER_ID
    before = m.epoch
    assert m.join().epoch == before, "a member that rejoins with its id continues"
    assert m.numbers == [0, 1, 2, 3, 4, 5]


def test_a_member_without_topics_has_nothing(member: NewMember) -> None:
    for m in (member("m", topics=()), member("n", topics=("nothing-of-that-name",))):
        m.join()
        assert m.owned == frozenset()
        m.leave()


def test_a_pattern_means_topics_by_their_whole_names(member: NewMember, create_topic: CreateTopic) -> None:
    first = create_topic(partitions=2)
    m = member("m", topics=None, pattern=f"{first}.*")
    m.join()
    m.heartbeat_until(lambda: m.numbers == [0, 1])
    (described,) = m.describe().members
    assert (described.topics, described.pattern) == ([], f"{first}.*")
    n = member("n", topics=None, pattern=first[:-1])
    n.join()
    m.heartbeat_until(lambda: shared(m, n), n)
    assert (m.numbers, n.numbers) == ([0, 1], [])


@pytest.mark.parametrize("pattern", ["t(", "t(?=a)", r"(a)\1", "*"])
def test_patterns_are_those_of_re2(member: NewMember, pattern: str) -> None:
    m = member("m")
    response = m.ask_to_join(pattern=pattern)
    assert response.error == INVALID_REGULAR_EXPRESSION
    assert response.message is not None
    assert response.message.startswith(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: ")


# several members


def test_a_member_gets_what_another_one_has_released(member: NewMember) -> None:
    m, n = member("m"), member("n")
    m.join()
    n.join()
    n.heartbeat_until(lambda: n.describe().state == "Reconciling")
    assert not n.owned
    everything, kept = m.owned, m.ask().assignment
    assert kept is not None and len(kept) == 3
    n.heartbeat()
    assert not n.owned, "m was told to release partitions, and has not confirmed it yet"
    m.owned = kept
    assert m.heartbeat().epoch == n.epoch
    n.heartbeat()
    assert n.owned == everything - kept
    described = n.describe()
    assert (described.state, described.epoch, described.target_epoch) == ("Stable", n.epoch, n.epoch)
    assert [(each.member_id, each.assignment, each.target) for each in described.members] == [
        ("m", m.owned, m.owned),
        ("n", n.owned, n.owned),
    ]
    assert {(each.client_id, each.host) for each in described.members} == {("raw-member", "/127.0.0.1")}


def test_a_lost_response_is_sent_again(member: NewMember) -> None:
    m, n = member("m"), member("n")
    m.join()
    n.join()
    n.heartbeat_until(lambda: n.describe().state == "Reconciling")
    m.heartbeat()
    before, everything = m.epoch, m.describe().members[0].assignment
    lost = m.ask(owned=m.owned)
    assert lost.epoch == before + 1
    assert m.ask(owned=everything).error == FENCED_MEMBER_EPOCH, "it claims partitions that it may not own"
    assert m.heartbeat(full=True)[:4] == (NONE, None, "m", before + 1)


def test_what_a_member_leaves_goes_to_the_others(member: NewMember) -> None:
    m, n = member("m"), member("n")
    m.join()
    n.join()
    m.heartbeat_until(lambda: shared(m, n), n)
    m.leave()
    n.heartbeat_until(lambda: n.numbers == [0, 1, 2, 3, 4, 5])
    n.leave()
    described = n.describe()
    assert (described.state, described.members) == ("Empty", [])
    assert n.ask().error == UNKNOWN_MEMBER_ID


def test_other_topics_lead_to_another_assignment(member: NewMember, create_topic: CreateTopic) -> None:
    m = member("m")
    m.join()
    m.topics = (create_topic(partitions=2),)
    before, had = m.epoch, m.owned
    m.heartbeat(full=True)
    m.heartbeat_until(lambda: m.epoch > before and m.numbers == [0, 1])
    assert m.owned.isdisjoint(had)


def test_the_assignor_is_the_one_that_most_members_want(member: NewMember) -> None:
    members = [member("m", assignor="range"), member("n", assignor="range"), member("o", assignor="uniform")]
    for each in members:
        each.join()
    assert members[0].describe().assignor == "range"
    members[0].heartbeat_until(lambda: shared(*members), *members[1:])
    assert [each.numbers for each in members] == [[0, 1], [2, 3], [4, 5]]


# static members


def test_an_instance_is_one_member_at_a_time(member: NewMember) -> None:
    m, other = member("m", instance="i"), member("other", instance="i")
    m.join()
    assert other.ask_to_join().error == UNRELEASED_INSTANCE_ID
    assert other.ask(epoch=m.epoch).error == FENCED_INSTANCE_ID
    assert other.ask(epoch=LEAVE_EPOCH).error == FENCED_INSTANCE_ID
    assert m.ask(instance="else").error == UNKNOWN_MEMBER_ID


def test_an_instance_that_left_temporarily_gets_its_partitions_back(member: NewMember) -> None:
    m, n = member("m", instance="i"), member("n")
    m.join()
    n.join()
    m.heartbeat_until(lambda: shared(m, n), n)
    had, epoch = m.owned, m.epoch
    m.leave(STATIC_LEAVE_EPOCH)
    assert [each.epoch for each in n.describe().members] == [STATIC_LEAVE_EPOCH, epoch]
    again = member("again", instance="i")
    assert again.join().epoch == epoch
    assert again.owned == had
    assert m.ask(epoch=epoch).error == FENCED_INSTANCE_ID


# descriptions


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_is_described_in_each_version(member: NewMember, group: str, topic: str, version: int) -> None:
    m = member("m", instance="i")
    m.join()
    described = m.describe(version, operations=True)
    assert described[:4] == (NONE, None, group, "Stable")
    assert described[4:7] == (m.epoch, m.epoch, "uniform")
    assert described.operations == ALL_GROUP_OPERATIONS
    assert described.members == [
        ("m", "i", None, m.epoch, "raw-member", "/127.0.0.1", [topic], "", m.owned, m.owned, True if version else None)
    ]
    assert m.describe(version).operations == OPERATIONS_NOT_ASKED_FOR


# offsets


def test_members_commit_with_their_epochs(member: NewMember, classic: NewClassicMember, topic: str) -> None:
    m, n = member("m"), member("n")
    m.join()
    n.join()
    m.heartbeat_until(lambda: shared(m, n), n)
    client = classic(member_id="m")
    has_first = m if 0 in m.numbers else n
    client.member_id = has_first.member_id
    assert client.commit(topic, 5, version=9, generation=has_first.epoch) == NONE
    assert client.commit(topic, 5, version=9, generation=has_first.epoch + 1) == STALE_MEMBER_EPOCH
    assert client.commit(topic, 5, version=9, generation=1) == STALE_MEMBER_EPOCH
    assert client.commit(topic, 5, version=8, generation=has_first.epoch) == UNSUPPORTED_VERSION
    client.member_id = "stranger"
    assert client.commit(topic, 5, version=9, generation=has_first.epoch) == UNKNOWN_MEMBER_ID


def test_a_member_commits_with_an_older_epoch_what_it_already_owned_then(
    member: NewMember, classic: NewClassicMember, topic: str
) -> None:
    m, n = member("m"), member("n")
    before = m.join().epoch
    n.join()
    m.heartbeat_until(lambda: shared(m, n), n)
    keeps_first = 0 in m.numbers
    client = classic(member_id="m" if keeps_first else "n")
    assert client.commit(topic, 5, version=9, generation=before) == (NONE if keeps_first else STALE_MEMBER_EPOCH)


# members that use the classic protocol


def settled(old: Member, *new: ConsumerMember) -> bytes:
    """Makes the old member join as often as it is told to, and returns its final assignment."""
    assigned = b""

    def go_on() -> bool:
        nonlocal assigned
        if old.generation < 0 or old.heartbeat() == REBALANCE_IN_PROGRESS:
            assert old.join().error == NONE
            synced = old.sync()
            if synced.error == REBALANCE_IN_PROGRESS:
                return False
            assert synced.error == NONE
            assigned = synced.assignment
            return False
        return new[0].describe().state == "Stable"

    new[0].heartbeat_until(go_on, *new[1:])
    return assigned


def test_a_member_may_use_the_classic_protocol(member: NewMember, classic: NewClassicMember, topic: str) -> None:
    m = member("m")
    m.join()
    old = classic()
    joined = old.join()
    assert (joined.error, joined.protocol_type, joined.protocol, joined.leader) == (NONE, "consumer", "range", "")
    assert joined.members == []
    assignment = settled(old, m)
    assert topic.encode() in assignment
    assert len(m.owned) == 3
    types = {each.member_id: each.uses_new_protocol for each in m.describe().members}
    assert types == {"m": True, old.member_id: False}
    assert old.heartbeat(generation=old.generation - 1) == ILLEGAL_GENERATION
    assert old.sync(protocol="sticky") == Synced(INCONSISTENT_GROUP_PROTOCOL, None, None, b"")
    assert old.commit(topic, 3) == NONE
    assert old.leave() == NONE
    m.heartbeat_until(lambda: len(m.owned) == 6)
    m.heartbeat_until(lambda: m.heartbeat().interval_ms == HEARTBEAT_INTERVAL_MS)


def test_members_of_other_protocols_are_refused(member: NewMember, classic: NewClassicMember) -> None:
    member("m").join()
    assert classic(protocol_type="connect").join().error == INCONSISTENT_GROUP_PROTOCOL
    assert classic(protocols=[]).join().error == INCONSISTENT_GROUP_PROTOCOL
    stranger = classic(member_id="stranger", generation=2)
    assert stranger.heartbeat() == UNKNOWN_MEMBER_ID
    assert stranger.sync().error == UNKNOWN_MEMBER_ID
    assert stranger.leave() == UNKNOWN_MEMBER_ID
    speaker = classic(member_id="m", generation=2)
    assert speaker.heartbeat() == UNKNOWN_MEMBER_ID, "the member does not use the classic protocol"


def test_an_administrator_removes_members_of_the_new_protocol(member: NewMember, classic: NewClassicMember) -> None:
    member("m").join()
    member("n", instance="i").join()
    member("o").join()
    named: list[tuple[str, str | None]] = [("m", None), ("", "i"), ("stranger", None)]
    answers = [(*names, error) for names, error in zip(named, (NONE, NONE, UNKNOWN_MEMBER_ID), strict=True)]
    assert classic().leave_with(named) == (NONE, answers)
    assert [each.member_id for each in member("o").describe().members] == ["o"]


def test_a_classic_group_changes_to_the_new_protocol_and_back(
    member: NewMember, classic: NewClassicMember, topic: str
) -> None:
    old = classic()
    assert old.join().leads
    assignment = b"\0\1\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\0\0\0\1\0\0\0\0" + b"\xff" * 4
    assert old.sync({old.member_id: assignment}).error == NONE
    m = member("m")
    m.join()
    assert old.describe().error == GROUP_ID_NOT_FOUND
    settled(old, m)
    assert len(m.owned) == 3
    m.leave()
    assert m.describe().error == GROUP_ID_NOT_FOUND
    assert old.describe().state == "PreparingRebalance"
    joined = old.join()
    assert (joined.error, joined.leads) == (NONE, True)


def test_a_classic_group_of_other_clients_than_consumers_stays_classic(
    member: NewMember, classic: NewClassicMember
) -> None:
    old = classic(protocol_type="connect", protocols=[("mine", b"anything")])
    assert old.join().error == NONE
    assert member("m").ask_to_join().error == GROUP_ID_NOT_FOUND


def test_an_empty_group_takes_the_kind_of_the_next_member(member: NewMember, classic: NewClassicMember) -> None:
    old, m = classic(), member("m")
    assert old.join().error == NONE
    assert old.leave() == NONE
    m.join()
    assert m.describe().state == "Stable"
    m.leave()
    assert classic().join().leads
    assert m.describe().error == GROUP_ID_NOT_FOUND

from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.consumer.consumer_member import (
    ClassicProtocols,
    ConsumerMember,
    CurrentAssignment,
    MemberState,
    Profile,
)
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CALLER = Caller("client", "/192.0.2.1")
FULL = Profile("client", "/192.0.2.1", "i", "r", frozenset({"a"}), "b.*", 60_000, "range")


def test_what_a_heartbeat_leaves_out_is_as_it_was() -> None:
    request = ConsumerGroupHeartbeatRequest("g", "m", 3)
    assert FULL.after_heartbeat(request, CALLER) == FULL


def test_what_a_heartbeat_says_counts() -> None:
    request = ConsumerGroupHeartbeatRequest("g", "m", 3, "j", "s", 1, ["c", "c"], "", "uniform")
    after = FULL.after_heartbeat(request, Caller("other", "/192.0.2.2"))
    assert after == Profile("other", "/192.0.2.2", "j", "s", frozenset({"c"}), "", 1, "uniform")
    assert not after.subscribes_as(FULL)


def test_a_consumer_heartbeat_ends_the_use_of_the_classic_protocol() -> None:
    old = Profile(classic=ClassicProtocols(10_000, (("range", b"metadata"),)))
    assert old.after_heartbeat(ConsumerGroupHeartbeatRequest("g", "m", 3), CALLER).classic is None


def test_what_is_kept_of_a_member_is_counted() -> None:
    small, large = Profile(topic_names=frozenset({"a"})), Profile(topic_names=frozenset({"a" * 1_000}))
    assert large.bytes_held - small.bytes_held == 999
    old = Profile(classic=ClassicProtocols(10_000, (("range", bytes(5_000)),)))
    assert old.bytes_held - Profile().bytes_held == 5_000
    assert (
        Profile("c" * 100, "", "i" * 200, "r" * 300, topic_pattern="p" * 400).bytes_held == 1_000 + Profile().bytes_held
    )


def test_a_member_is_reconciled_when_it_has_an_epoch_and_nothing_to_wait_for() -> None:
    assert CurrentAssignment(5).is_reconciled_to(5)
    assert not CurrentAssignment(5).is_reconciled_to(6)
    assert not CurrentAssignment(5, state=MemberState.UNRELEASED_PARTITIONS).is_reconciled_to(5)


def test_people_know_a_member_by_its_instance() -> None:
    assert ConsumerMember("m", FULL).participant.name == "i"

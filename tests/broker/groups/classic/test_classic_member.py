from grouping import Asked

from tailrace.broker.groups.classic.classic_member import ClassicMember, protocols_by_name, protocols_size
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.messages.join_group import JoinGroupRequestProtocol


def member(**protocols: bytes) -> ClassicMember:
    return ClassicMember(Participant("m", None, "client", "/h"), 60_000, 10_000, protocols)


def test_of_two_protocols_with_one_name_the_first_counts() -> None:
    sent = [JoinGroupRequestProtocol("range", b"1"), JoinGroupRequestProtocol("range", b"2")]
    assert protocols_by_name(sent) == {"range": b"1"}


def test_protocols_are_the_same_in_the_same_order_alone() -> None:
    one = member(range=b"1", sticky=b"2")
    assert one.has_same_protocols({"range": b"1", "sticky": b"2"})
    assert not one.has_same_protocols({"sticky": b"2", "range": b"1"})
    assert not one.has_same_protocols({"range": b"1", "sticky": b"3"})


def test_metadata_of_a_protocol_that_is_not_known_is_empty() -> None:
    assert (member(range=b"1").metadata("range"), member(range=b"1").metadata("other")) == (b"1", b"")
    assert member(range=b"1").metadata(None) == b""


def test_each_protocol_counts_even_when_it_is_empty() -> None:
    assert protocols_size({"a": b"", "b": b""}) > 100
    assert protocols_size({"a": bytes(1000)}) > 1000


def test_names_are_held_as_well_as_protocols() -> None:
    named = ClassicMember(Participant("m" * 100, "i" * 200, "c" * 300, "/h"), 60_000, 10_000, {})
    assert named.bytes_held == 600


def test_waiters_are_taken_once() -> None:
    one = member(range=b"1")
    one.joining, one.syncing = Asked(), Asked()
    assert len(one.take_waiters()) == 2
    assert one.take_waiters() == []

from math import inf

from tailrace.controller.connections.leases import Leases
from tailrace.protocol.ids import SpuId

ONE, TWO = SpuId(1), SpuId(2)


def test_a_lease_ends_unless_it_is_renewed() -> None:
    leases = Leases(1.5)
    leases.grant(ONE, "a", now=10.0)
    leases.grant(TWO, "b", now=10.5)
    assert leases.next_end == 11.5
    assert leases.renew(ONE, "a", now=11.0)
    assert leases.next_end == 12.0
    assert leases.is_held(TWO)
    assert leases.expired(11.9) == []
    assert leases.expired(12.0) == [TWO]
    assert leases.seconds_left(ONE, 12.0) == 0.5
    assert not leases.renew(TWO, "b", now=12.0)


def test_without_leases_no_lease_expires() -> None:
    leases = Leases(1.5)
    assert leases.next_end == inf
    assert leases.expired(1e9) == []
    assert leases.end(ONE) is None
    assert not leases.is_held(ONE)
    assert leases.seconds_left(ONE, 0.0) == 0.0


def test_only_the_process_that_has_it_renews_it() -> None:
    leases = Leases(1.5)
    leases.grant(ONE, "a", now=0.0)
    assert not leases.renew(ONE, "b", now=1.0)
    assert not leases.renew(TWO, "a", now=1.0)
    assert leases.next_end == 1.5


def test_a_second_process_is_refused_while_the_first_is_connected_and_alive() -> None:
    leases = Leases(1.5)
    assert leases.refusal(ONE, "b", now=0.0) is None
    leases.grant(ONE, "a", now=0.0)
    leases.renew(ONE, "a", now=0.5)
    assert leases.refusal(ONE, "b", now=1.5) == "another process is SPU 1, and was alive 1.0 seconds ago"
    assert leases.refusal(ONE, "a", now=1.5) is None
    assert leases.refusal(TWO, "b", now=1.5) is None
    assert leases.refusal(ONE, "b", now=2.0) is None


def test_a_lease_outlives_its_stream_for_the_same_process_and_gives_way_to_another() -> None:
    leases = Leases(1.5)
    leases.grant(ONE, "a", now=0.0)
    leases.on_stream_ended(ONE)
    assert leases.next_end == 1.5
    assert leases.refusal(ONE, "b", now=0.1) is None
    leases.grant(ONE, "b", now=0.1)
    assert leases.refusal(ONE, "a", now=0.2) is not None


def test_time_in_which_the_sc_was_paused_does_not_count() -> None:
    leases = Leases(1.5)
    leases.grant(ONE, "a", now=0.0)
    leases.extend(3.0)
    assert leases.expired(4.4) == []
    assert leases.expired(4.5) == [ONE]


def test_a_lease_is_left_when_its_process_has_lost_its_stream_and_is_not_back() -> None:
    leases = Leases(1.5)
    assert not leases.is_held_without_stream(ONE, "a")
    leases.grant(ONE, "a", now=0.0)
    assert not leases.is_held_without_stream(ONE, "a")
    leases.on_stream_ended(ONE)
    assert leases.is_held_without_stream(ONE, "a")
    assert not leases.is_held_without_stream(ONE, "b")
    leases.grant(ONE, "b", now=0.5)
    assert not leases.is_held_without_stream(ONE, "a")
    assert not leases.is_held_without_stream(ONE, "b")

import pytest

from tailrace.broker.controller_link.reconnecting import DUPLICATE_LEASES_MAX, STABLE_SECONDS, Reconnecting
from tailrace.runtime.backoff import PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address

A, B, C = (Address(f"sc-{name}", 9004) for name in "abc")
LEASE = 1.5


def _reconnecting(*addresses: Address) -> Reconnecting:
    return Reconnecting(addresses, RandomChance(1))


def test_standbys_are_tried_in_turn_with_a_pause_after_each_round() -> None:
    reconnecting = _reconnecting(A, B, C)
    asked, pauses = [], []
    for _ in range(7):
        asked.append(reconnecting.address)
        pauses.append(reconnecting.pause_seconds() > 0)
        reconnecting.on_failed()
    assert asked == [A, B, C, A, B, C, A]
    assert pauses == [False, False, False, True, False, False, True]


def test_pauses_grow_up_to_a_second_and_differ() -> None:
    reconnecting = _reconnecting(A)
    pauses = []
    for _ in range(5000):
        reconnecting.on_failed()
        pauses.append(reconnecting.pause_seconds())
    assert PAUSE_SECONDS_MIN / 2 <= pauses[0] <= PAUSE_SECONDS_MIN
    assert pauses[1] > pauses[0]
    assert all(PAUSE_SECONDS_MAX / 2 <= pause <= PAUSE_SECONDS_MAX for pause in pauses[10:])
    assert len(set(pauses[10:])) > 4000


def test_after_a_stable_connection_the_same_address_is_tried_at_once() -> None:
    reconnecting = _reconnecting(A, B)
    reconnecting.on_failed()
    reconnecting.on_registered()
    reconnecting.on_lost(STABLE_SECONDS)
    assert (reconnecting.address, reconnecting.pause_seconds()) == (B, 0.0)


def test_a_controller_that_drops_us_at_once_is_not_asked_without_end() -> None:
    reconnecting = _reconnecting(A)
    for _ in range(10):
        reconnecting.on_registered()
        reconnecting.on_lost(STABLE_SECONDS / 2)
    assert reconnecting.pause_seconds() >= PAUSE_SECONDS_MAX / 2


@pytest.mark.parametrize(("seconds", "is_final"), [(0.0, False), (2 * LEASE, False), (2 * LEASE + 0.1, True)])
def test_another_process_of_our_id_may_be_one_that_has_died(seconds: float, is_final: bool) -> None:
    assert DUPLICATE_LEASES_MAX == 2
    reconnecting = _reconnecting(A)
    assert not reconnecting.on_duplicate(100.0, LEASE)
    assert reconnecting.on_duplicate(100.0 + seconds, LEASE) == is_final


def test_a_process_that_has_served_never_gives_up_for_a_duplicate() -> None:
    reconnecting = _reconnecting(A)
    reconnecting.on_registered()
    assert not any(reconnecting.on_duplicate(now, LEASE) for now in (0.0, 10.0, 1000.0))
    assert reconnecting.pause_seconds() > 0

import math

from grouping import Asked as Waiting

from tailrace.broker.transactions.coordinator import parked_requests
from tailrace.broker.transactions.coordinator.parked_requests import (
    PARKED_MAX,
    PARKED_PER_ID_MAX,
    PARKED_SECONDS_MAX,
    Asked,
    ParkedRequests,
)


def asked() -> Asked:
    return Asked(Waiting(), lambda asked, moment: None)


def test_requests_are_taken_by_id_in_the_order_of_their_arrival() -> None:
    parked = ParkedRequests()
    first, second, other = asked(), asked(), asked()
    for name, each in (("a", first), ("b", other), ("a", second)):
        assert parked.park(name, each, 0.0)
    assert len(parked) == 3
    assert parked.take("a") == [first, second]
    assert parked.take("a") == []
    assert parked.take_all() == [other]
    assert len(parked) == 0


def test_a_request_is_due_after_its_time() -> None:
    parked = ParkedRequests()
    assert parked.deadline == math.inf
    early, late = asked(), asked()
    parked.park("a", early, 1.0)
    parked.park("a", late, 2.0)
    assert parked.deadline == 1.0 + PARKED_SECONDS_MAX
    assert parked.take_due(0.9 + PARKED_SECONDS_MAX) == []
    assert parked.take_due(1.0 + PARKED_SECONDS_MAX) == [early]
    assert parked.take("a") == [late]
    assert parked.deadline == math.inf


def test_a_request_that_is_parked_again_has_its_whole_time_again() -> None:
    parked = ParkedRequests()
    again, before = asked(), asked()
    parked.park("b", before, 0.0)
    parked.park("a", again, 0.5)
    parked.take("a")
    parked.park("a", again, 1.0)
    assert parked.take_due(0.5 + PARKED_SECONDS_MAX) == [before]
    assert parked.take_due(1.0 + PARKED_SECONDS_MAX) == [again]


def test_no_more_requests_wait_than_allowed() -> None:
    parked = ParkedRequests()
    assert all(parked.park("a", asked(), 0.0) for _ in range(PARKED_PER_ID_MAX))
    assert not parked.park("a", asked(), 0.0)
    assert all(parked.park(str(number), asked(), 0.0) for number in range(PARKED_MAX - PARKED_PER_ID_MAX))
    assert not parked.park("b", asked(), 0.0)
    assert len(parked.take_due(PARKED_SECONDS_MAX)) == PARKED_MAX
    assert parked.park("a", asked(), 0.0)


def test_requests_that_were_taken_do_not_pile_up_behind_one_that_waits() -> None:
    parked = ParkedRequests()
    parked.park("slow", asked(), 0.0)
    for _ in range(10_000):
        parked.park("fast", asked(), 0.0)
        parked.take("fast")
    assert len(parked._queue) <= 2 * len(parked) + parked_requests._STALE_MIN + 2

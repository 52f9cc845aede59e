from collections.abc import Callable

import pytest

from tailrace.broker.replicas.acknowledgements import Acknowledgements
from tailrace.protocol.error_codes import ErrorCode, KafkaError


class _Producer:
    def __init__(self, name: str, happened: list[str]) -> None:
        self.name = name
        self.happened = happened
        self.done = False

    def on_acknowledged(self) -> Callable[[], None]:
        self.happened.append(f"prepare {self.name}")
        return self.send

    def on_refused(self, error: KafkaError) -> None:
        self.happened.append(f"refuse {self.name}")

    def send(self) -> None:
        self.happened.append(f"send {self.name}")


def _ends(queue: Acknowledgements) -> list[int]:
    return [end for end, _ in queue.waiting]


def test_all_answers_are_prepared_before_one_is_sent() -> None:
    queue, happened = Acknowledgements(), list[str]()
    for end, name in ((1, "a"), (2, "b"), (3, "c")):
        queue.add(end, _Producer(name, happened))
    queue.release(2)
    assert happened == ["prepare a", "prepare b", "send a", "send b"]
    assert _ends(queue) == [3]


def test_the_responses_of_one_client_are_sent_with_one_call() -> None:
    queue, happened = Acknowledgements(), list[str]()
    client, other = _Producer("a", happened), _Producer("b", happened)
    for end, each in ((1, client), (1, other), (2, client)):
        queue.add(end, each)
    queue.release(2)
    assert happened == ["prepare a", "prepare b", "prepare a", "send a", "send b"]


def test_a_retried_batch_waits_for_its_own_offset_only() -> None:
    queue, happened = Acknowledgements(), list[str]()
    for end, name in ((2, "a"), (4, "b"), (6, "c"), (4, "b again"), (1, "before all"), (6, "c again")):
        queue.add(end, _Producer(name, happened))
    assert _ends(queue) == [1, 2, 4, 4, 6, 6]
    queue.release(4)
    assert happened[4:] == ["send before all", "send a", "send b", "send b again"]


@pytest.mark.parametrize("end", [5, 9, 12])
def test_finished_requests_are_removed_although_an_earlier_one_still_waits(end: int) -> None:
    queue, happened = Acknowledgements(), list[str]()
    queue.add(9, _Producer("patient", happened))
    for _ in range(1_000):
        impatient = _Producer("impatient", happened)
        queue.add(end, impatient)
        impatient.done = True
        assert len(queue.waiting) < 20
    queue.release(9)
    assert "send patient" in happened


def test_sweeps_do_not_become_more_frequent_with_more_waiting_requests() -> None:
    looked = 0

    class Patient(_Producer):
        @property
        def done(self) -> bool:
            nonlocal looked
            looked += 1
            return False

        @done.setter
        def done(self, value: bool) -> None: ...

    queue = Acknowledgements()
    for end in range(10_000):
        queue.add(end, Patient("patient", []))
    assert _ends(queue) == list(range(10_000))
    assert looked < 2 * 10_000


def test_all_are_refused_in_their_order() -> None:
    queue, happened = Acknowledgements(), list[str]()
    for end, name in ((2, "b"), (1, "a")):
        queue.add(end, _Producer(name, happened))
    queue.refuse(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no more"))
    assert happened == ["refuse a", "refuse b"]
    assert not queue.waiting

from msgspec import Struct

from tailrace.server.fairness.response_memory import (
    CLOSED_AT_ONCE_MAX,
    HELD_BYTES_MAX,
    SCARCE_BYTES_MAX,
    SLOW_SECONDS,
    ResponseMemory,
)

LIMIT = 1000


class _Client(Struct, eq=False):
    reason: str = ""

    def close(self, reason: str) -> None:
        self.reason = reason


def test_a_connection_may_hold_less_while_memory_is_scarce() -> None:
    memory, client, other = ResponseMemory(LIMIT), _Client(), _Client()
    memory.hold(client, LIMIT // 2 - 1, now=0)
    assert memory.allowance == HELD_BYTES_MAX
    memory.hold(other, 1, now=0)
    assert memory.allowance == SCARCE_BYTES_MAX
    assert memory.is_scarce
    memory.hold(client, 10, now=0)
    assert memory.allowance == HELD_BYTES_MAX
    assert not memory.is_scarce
    assert memory.held_bytes == 11


def test_what_was_read_is_not_counted() -> None:
    memory, client = ResponseMemory(LIMIT), _Client()
    memory.hold(client, 700, now=0)
    memory.hold(client, 300, now=1)
    assert memory.held_bytes == 300
    memory.hold(client, 0, now=2)
    assert memory.held_bytes == 0
    memory.release(client)
    assert memory.held_bytes == 0
    assert not client.reason


def test_connections_that_hold_the_most_for_the_longest_time_are_closed() -> None:
    memory = ResponseMemory(LIMIT)
    long, much, short, little = (_Client() for _ in range(4))
    memory.hold(long, 200, now=0)
    memory.hold(much, 500, now=50)
    memory.hold(little, 10, now=0)
    memory.hold(short, 290, now=99)
    assert (long.reason, much.reason) == ("", ""), "the limit is not exceeded"
    memory.hold(little, 20, now=100)
    assert "does not read" in much.reason
    assert not (long.reason or short.reason or little.reason)
    assert memory.held_bytes == 510


def test_as_many_are_closed_as_necessary() -> None:
    memory = ResponseMemory(LIMIT)
    clients = [_Client() for _ in range(11)]
    for number, client in enumerate(clients):
        memory.hold(client, 100, now=number * SLOW_SECONDS)
    assert [bool(client.reason) for client in clients] == [True] * 4 + [False] * 7
    assert memory.held_bytes == 700


def test_few_clients_are_closed_in_one_go() -> None:
    memory, last = ResponseMemory(LIMIT), _Client()
    clients = [_Client() for _ in range(4 * CLOSED_AT_ONCE_MAX)]
    for client in clients:
        memory.hold(client, 5, now=0)

    def closed() -> int:
        return sum(bool(client.reason) for client in clients)

    memory.hold(last, 1000, now=SLOW_SECONDS)
    assert closed() == CLOSED_AT_ONCE_MAX
    memory.hold(last, 1001, now=SLOW_SECONDS + 0.001)
    assert closed() == CLOSED_AT_ONCE_MAX, "others are served first"
    memory.hold(last, 1002, now=SLOW_SECONDS + 0.1)
    assert closed() == 2 * CLOSED_AT_ONCE_MAX


def test_a_client_that_catches_up_begins_anew() -> None:
    memory, slow, steady = ResponseMemory(LIMIT), _Client(), _Client()
    memory.hold(slow, 500, now=0)
    memory.hold(steady, 500, now=0)
    memory.hold(steady, 0, now=90)
    memory.hold(steady, 501, now=91)
    assert slow.reason
    assert not steady.reason


def test_a_connection_may_be_closed_for_its_own_responses() -> None:
    memory, client, other = ResponseMemory(LIMIT), _Client(), _Client()
    memory.hold(other, 10, now=0)
    memory.hold(client, LIMIT, now=0)
    memory.hold(client, 2 * LIMIT, now=1)
    assert client.reason
    assert not other.reason
    assert memory.held_bytes == 10


def test_a_response_may_be_larger_than_the_limit() -> None:
    memory, client, other = ResponseMemory(LIMIT), _Client(), _Client()
    for now, count in enumerate((3 * LIMIT, 4 * LIMIT, 3 * LIMIT, 10, 0)):
        memory.hold(client, count, now=now * SLOW_SECONDS)
    assert not client.reason, "no other client needs the memory"
    memory.hold(other, 10, now=101)
    for count in range(3 * LIMIT, 0, -LIMIT):
        memory.hold(client, count, now=101)
    assert not client.reason


def test_clients_that_read_large_responses_go_on() -> None:
    """They hold more than the limit together, and need longer to read everything than a client may be slow."""
    memory, clients = ResponseMemory(LIMIT), [_Client() for _ in range(12)]
    for second in range(2 * SLOW_SECONDS):
        for client in clients:
            memory.hold(client, 150 - 7 * second, now=second)
        assert memory.held_bytes > LIMIT or second > SLOW_SECONDS // 2
    assert not any(client.reason for client in clients)


def test_a_client_that_reads_next_to_nothing_is_slow() -> None:
    memory, trickling, reading = ResponseMemory(LIMIT), _Client(), _Client()
    memory.hold(trickling, 600, now=0)
    for second in range(1, SLOW_SECONDS + 3):
        memory.hold(trickling, 600 - second, now=second)
        memory.hold(reading, 500, now=second)
        memory.hold(reading, 100, now=second + 0.5)
    assert trickling.reason
    assert not reading.reason


def test_slow_clients_are_closed_first_when_there_is_far_too_much() -> None:
    memory = ResponseMemory(LIMIT)
    silent, reading, last = _Client(), _Client(), _Client()
    memory.hold(silent, 800, now=0)
    memory.hold(reading, 900, now=0)
    memory.hold(reading, 800, now=5)
    memory.hold(last, 500, now=5)
    assert silent.reason
    assert not (reading.reason or last.reason)

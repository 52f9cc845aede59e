from msgspec import Struct

from tailrace.server.fairness.response_memory import HELD_BYTES_MAX, SCARCE_BYTES_MAX, ResponseMemory

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
    memory.hold(client, 10, now=0)
    assert memory.allowance == HELD_BYTES_MAX
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
        memory.hold(client, 100, now=number)
    assert [bool(client.reason) for client in clients] == [True] * 4 + [False] * 7
    assert memory.held_bytes == 700


def test_a_client_that_catches_up_begins_anew() -> None:
    memory, slow, steady = ResponseMemory(LIMIT), _Client(), _Client()
    memory.hold(slow, 500, now=0)
    memory.hold(steady, 500, now=0)
    memory.hold(steady, 0, now=90)
    memory.hold(steady, 501, now=91)
    assert slow.reason
    assert not steady.reason


def test_a_connection_may_be_closed_for_its_own_responses() -> None:
    memory, client = ResponseMemory(LIMIT), _Client()
    memory.hold(client, LIMIT + 1, now=0)
    assert client.reason
    assert memory.held_bytes == 0

"""Tests the messages about any server; `test_sc_client.py` tests those about the SC."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest
import trio
from answering import Answer, answering
from simulation.network import MemoryConnection, MemoryNetwork

from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import (
    ANSWER_SECONDS_MAX,
    RefusedError,
    Role,
    ServerConnection,
    UnreachableError,
    answered,
    check,
    connect,
    error_name,
    reason_of,
)
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.headers import encode_response
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tailrace.runtime.network import Address, TcpNetwork

ADDRESS = Address("127.0.0.1", 9005)
ROLE = Role("miller", "Ring twice.")


async def _asked(answer: Answer, ask: Callable[[ServerConnection], Awaitable[None]]) -> None:
    """Asks a server that handles the connection in this way when a request arrives."""
    async with answering(ADDRESS, answer) as network:
        connection = await connect(network, ADDRESS, ROLE, API_TABLE)
        try:
            await ask(connection)
        finally:
            connection.close()


async def test_nobody_is_there() -> None:
    with pytest.raises(UnreachableError) as caught:
        await connect(MemoryNetwork(), ADDRESS, ROLE, API_TABLE)
    assert str(caught.value) == "the miller at 127.0.0.1:9005 does not answer: connection refused. Ring twice."


async def test_no_host_can_have_that_name() -> None:
    address = Address("a..b", 9005)
    with pytest.raises(UnreachableError) as caught:
        await connect(TcpNetwork(), address, ROLE, API_TABLE)
    assert str(caught.value) == "the miller at a..b:9005 does not answer: no host can have that name. Ring twice."


async def test_a_response_that_comes_in_pieces_is_one() -> None:
    topics = [MetadataResponseTopic(name=f"topic-{number}") for number in range(10_000)]
    response = MetadataResponse(topics=topics)

    async def answer(connection: MemoryConnection) -> None:
        parts = encode_response(ApiKey.METADATA, 12, 1, response)
        rest = memoryview(b"".join(bytes(part) for part in parts))  # type: ignore[call-overload]
        while rest:
            rest = rest[connection.send([rest[:10_001]]) :]
            await trio.testing.wait_all_tasks_blocked()

    async def ask(connection: ServerConnection) -> None:
        assert await connection.ask(MetadataRequest(), 12) == response

    await _asked(answer, ask)


async def test_a_name_is_not_sent_that_is_too_long_for_the_protocol() -> None:
    async def answer(connection: MemoryConnection) -> None:
        raise AssertionError("nothing is sent")

    async def ask(connection: ServerConnection) -> None:
        request = MetadataRequest([MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="é" * 20_000)])
        with pytest.raises(RefusedError) as caught:
            await connection.ask(request, 12)
        assert str(caught.value) == f"'{'é' * 40}'… has 40000 bytes; names have at most 32767"

    await _asked(answer, ask)


async def test_whoever_was_asked_to_wait_may_take_longer(autojump_clock: trio.testing.MockClock) -> None:
    async def answer(connection: MemoryConnection) -> None:
        await trio.sleep_forever()

    async def ask(connection: ServerConnection) -> None:
        with pytest.raises(UnreachableError, match=r"the miller at .* it sent nothing for 55 s"):
            await connection.ask(MetadataRequest(), 12, wait_seconds=20)

    before = trio.current_time()
    await _asked(answer, ask)
    assert trio.current_time() - before == ANSWER_SECONDS_MAX + 20


async def test_another_answers() -> None:
    async def answer(connection: MemoryConnection) -> None:
        connection.send([b"\x00\x00\x00\x02ab"])
        await trio.sleep_forever()

    async def ask(connection: ServerConnection) -> None:
        with pytest.raises(UnreachableError, match=r"^the server at 127.0.0.1:9005 is not an miller: "):
            await connection.ask(MetadataRequest(), 12)

    await _asked(answer, ask)


def test_an_answer_with_an_error_is_refused_in_its_own_words() -> None:
    check(SimpleNamespace(error_code=0, error_message="never mind"))
    with pytest.raises(RefusedError, match=r"^no more flour$"):
        check(SimpleNamespace(error_code=42, error_message="no more flour"))
    with pytest.raises(RefusedError, match=r"^INVALID_REQUEST$"):
        check(SimpleNamespace(error_code=42, error_message=None))
    assert error_name(9999) == "error 9999"


def test_an_error_that_comes_as_a_code_is_put_into_words() -> None:
    assert reason_of(RefusedError("NON_EMPTY_GROUP", ErrorCode.NON_EMPTY_GROUP)) == "the group has members"
    assert reason_of(RefusedError("it said more", ErrorCode.NON_EMPTY_GROUP)) == "it said more"
    assert reason_of(RefusedError("INVALID_REQUEST", ErrorCode.INVALID_REQUEST)) == "INVALID_REQUEST"
    assert reason_of(RefusedError("error 9999", 9999)) == "error 9999"


def test_a_refusal_names_its_partition() -> None:
    here = Partition("orders", 0)
    assert answered({here: 7}) == {here: 7}
    with pytest.raises(RefusedError, match="orders/0: the disk of the leader has failed"):
        answered({here: RefusedError("KAFKA_STORAGE_ERROR", ErrorCode.KAFKA_STORAGE_ERROR)})

"""Tests the messages if there is another server, or none, at the SC's address."""

import json

import pytest
import trio
from answering import Answer, answering
from public_sc import ADDRESS, public_sc
from simulation.network import MemoryConnection, MemoryNetwork

from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import (
    ANSWER_SECONDS_MAX,
    CONNECT_SECONDS_MAX,
    RefusedError,
    UnreachableError,
)
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.headers import encode_response
from tailrace.protocol.internal.list_objects import ListedObject, ListObjectsResponse
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, InternalApiKey
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tailrace.runtime.network import Address

HINT = "Start one with `tailrace serve sc` or `tailrace up`, or name another with --sc or TAILRACE_SC"


async def _told(answer: Answer) -> str:
    """Asks a server that handles the connection in this way; returns the error message."""
    async with answering(ADDRESS, answer) as network:
        client = ScClient(network, [ADDRESS])
        try:
            with pytest.raises(UnreachableError) as caught:
                await client.list_objects("spu")
        finally:
            client.close()
    return str(caught.value)


def _answer(data: bytes) -> Answer:
    async def answer(connection: MemoryConnection) -> None:
        connection.send([data])
        await trio.sleep_forever()

    return answer


def _response(message: ListObjectsResponse, correlation_id: int = 1) -> bytes:
    parts = encode_response(InternalApiKey.LIST_OBJECTS, 0, correlation_id, message, SC_OBJECT_APIS)
    return b"".join(bytes(part) for part in parts)  # type: ignore[call-overload]


async def test_nobody_listens() -> None:
    client = ScClient(MemoryNetwork(), [ADDRESS])
    with pytest.raises(UnreachableError) as caught:
        await client.list_objects("spu")
    assert str(caught.value) == f"the SC at 127.0.0.1:9003 does not answer: connection refused. {HINT}"


async def test_the_one_of_several_that_leads_is_asked() -> None:
    standby = Address("standby", 9003)
    async with public_sc() as sc:
        client = ScClient(sc.network, [standby, ADDRESS])
        assert await client.list_objects("spu") == []
        client.close()
    client = ScClient(MemoryNetwork(), [standby, ADDRESS])
    with pytest.raises(UnreachableError) as caught:
        await client.list_objects("spu")
    assert str(caught.value) == f"none of the SCs at standby:9003, 127.0.0.1:9003 answers. {HINT}"


async def test_nobody_accepts(autojump_clock: trio.testing.MockClock) -> None:
    class Nowhere:
        async def connect(self, address: Address) -> MemoryConnection:
            await trio.sleep_forever()
            raise AssertionError

        async def listen(self, address: Address) -> None:
            raise AssertionError

    client = ScClient(Nowhere(), [ADDRESS])  # type: ignore[arg-type]
    with pytest.raises(UnreachableError, match="no connection within 5 seconds"):
        await client.list_objects("spu")
    assert trio.current_time() == CONNECT_SECONDS_MAX


async def test_nobody_answers(autojump_clock: trio.testing.MockClock) -> None:
    async def answer(connection: MemoryConnection) -> None:
        await trio.sleep_forever()

    before = trio.current_time()
    assert "it sent nothing for 35 s" in await _told(answer)
    assert trio.current_time() - before == ANSWER_SECONDS_MAX


async def test_the_connection_is_closed_or_breaks(autojump_clock: object) -> None:
    async def close(connection: MemoryConnection) -> None:
        connection.close()

    async def reset(connection: MemoryConnection) -> None:
        connection.reset()

    assert "it closed the connection; only its public port takes commands" in await _told(close)
    assert "the connection broke: connection reset by peer" in await _told(reset)


async def test_a_broker_is_recognised_by_the_apis_that_it_has() -> None:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)

    async def serve() -> None:
        first = await listener.accept()
        await first.wait_readable()
        first.receive_into(memoryview(bytearray(1000)))
        first.close()  # as a broker does for a request of the SC's own APIs
        second = await listener.accept()
        apis = ApiVersionsResponse(api_keys=[ApiVersion(ApiKey.PRODUCE, 0, 9)])
        second.send(encode_response(ApiKey.API_VERSIONS, 0, 1, apis))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(UnreachableError) as caught:
            await ScClient(network, [ADDRESS]).list_objects("spu")
    told = str(caught.value)
    assert told.startswith("the server at 127.0.0.1:9003 is a broker (SPU), not the SC: give the SC's public address")


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x02ab",
        b"\x00\x00\x00\x05\x00\x00\x00\x01\x00",
        _response(ListObjectsResponse(), correlation_id=2),
        _response(ListObjectsResponse(objects=[ListedObject("1", "no JSON")])),
        _response(ListObjectsResponse(objects=[ListedObject("1", "[]")])),
    ],
)
async def test_something_else_answers(data: bytes) -> None:
    assert (await _told(_answer(data))).startswith("the server at 127.0.0.1:9003 is not an SC: ")


async def test_an_error_without_a_sentence_is_named() -> None:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)

    async def serve() -> None:
        connection = await listener.accept()
        for correlation_id, code in ((1, 42), (2, 9999)):
            await connection.wait_readable()
            connection.receive_into(memoryview(bytearray(1000)))
            connection.send([_response(ListObjectsResponse(error_code=code), correlation_id)])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        client = ScClient(network, [ADDRESS])
        with pytest.raises(RefusedError, match=r"^INVALID_REQUEST$"):
            await client.list_objects("spu")
        with pytest.raises(RefusedError, match=r"^error 9999$"):
            await client.list_objects("spu")


async def test_one_connection_serves_many_requests() -> None:
    async with public_sc() as sc:
        client = ScClient(sc.network, [ADDRESS])
        created = await client.create("spu", {"spuId": 5})
        assert created["name"] == "5"
        assert await client.list_objects("spu", ["5"]) == [created]
        updated = await client.update("spu", {"spuId": 5, "rack": "r1"})
        assert updated["spec"]["rack"] == "r1"
        await client.delete("spu", "5")
        assert await client.list_objects("spu") == []
        response = await client.ask(ApiVersionsRequest("tailrace-cli", "1"))
        assert response.error_code == 0
        client.close()


async def test_a_large_document_passes_a_small_buffer() -> None:
    async with public_sc() as sc:
        client = ScClient(sc.network, [ADDRESS])
        rows = {number: [1, 2, 3] for number in range(10_000)}
        created = await client.create("topic", {"name": "large", "replicaMap": rows})
        assert json.loads(json.dumps(rows)) == created["spec"]["replicaMap"]
        client.close()

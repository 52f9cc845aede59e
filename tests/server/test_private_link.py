from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import structlog
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, field
from simulation.client import WireClient
from simulation.network import MemoryConnection, connected_pair
from structlog.testing import capture_logs

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.decoder_source import ELEMENTS_MAX
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.internal.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tailrace.protocol.internal.apply_metadata import (
    ApplyMetadataRequest,
    ApplyMetadataResponse,
    PartitionState,
    TopicState,
)
from tailrace.protocol.internal.describe_replicas import (
    DescribedTopic,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest, RenewLeaseResponse
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, SPU_PRIVATE_APIS, InternalApiKey
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.server.foreign_clients import ForeignClients
from tailrace.server.private_link import ABANDONED_MAX, REQUESTS_HELD_MAX, LinkClosed, PrivateLink

CONCURRENT = frozenset({InternalApiKey.FORWARD, InternalApiKey.DESCRIBE_REPLICAS})

Answer = Callable[[int, Any], Awaitable[object]]


async def _obliging(api_key: int, message: Any) -> object:
    """Responds with what was asked."""
    match message:
        case ForwardRequest():
            return ForwardResponse(metadata_version=message.api_version, body=message.body)
        case RenewLeaseRequest():
            return RenewLeaseResponse(error_code=7)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(first_id=1000, count=500)
        case ApplyMetadataRequest():
            return ApplyMetadataResponse()
        case DescribeReplicasRequest():
            return DescribeReplicasResponse()
    raise NotImplementedError(message)


class _World(Struct):
    sc: PrivateLink
    spu: PrivateLink
    sc_connection: MemoryConnection
    spu_connection: MemoryConnection
    nursery: trio.Nursery
    logged: list[Any] = field(default_factory=list)

    def start(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> list[Any]:
        """Runs it meanwhile; what it returned, or the LinkClosed or KafkaError it ended with, is put into the list."""
        results: list[Any] = []

        async def run() -> None:
            try:
                results.append(await function(*arguments))
            except (LinkClosed, KafkaError) as error:
                results.append(error)

        self.nursery.start_soon(run)
        return results

    @property
    def warnings(self) -> list[str]:
        return [entry["event"] for entry in self.logged if entry["log_level"] in ("warning", "error")]


def _sc(connection: MemoryConnection, handle: Answer, frame_bytes_max: int = 1 << 24) -> PrivateLink:
    return PrivateLink(
        connection,
        serves=SC_PRIVATE_APIS,
        asks=SPU_PRIVATE_APIS,
        handle=handle,
        concurrent=CONCURRENT,
        logger=structlog.get_logger(),
        frame_bytes_max=frame_bytes_max,
    )


@asynccontextmanager
async def _world(
    sc: Answer = _obliging, spu: Answer = _obliging, *, buffer_bytes: int = 64 * 1024
) -> AsyncIterator[_World]:
    with structlog.testing.capture_logs() as logged:
        spu_connection, sc_connection = connected_pair(buffer_bytes=buffer_bytes)
        sc_link = _sc(sc_connection, sc)
        spu_link = PrivateLink(
            spu_connection,
            serves=SPU_PRIVATE_APIS,
            asks=SC_PRIVATE_APIS,
            handle=spu,
            concurrent=CONCURRENT,
            logger=structlog.get_logger(),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sc_link.run)
            nursery.start_soon(spu_link.run)
            yield _World(sc_link, spu_link, sc_connection, spu_connection, nursery, logged)
            nursery.cancel_scope.cancel()


async def test_both_sides_ask_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with _world() as world:
        downward = [world.start(world.sc.ask, DescribeReplicasRequest()) for _ in range(20)]
        upward = [world.start(world.spu.ask, ForwardRequest(api_version=number, body=b"b")) for number in range(20)]
        await trio.testing.wait_all_tasks_blocked()
        assert downward == [[DescribeReplicasResponse()]] * 20
        assert [result[0].metadata_version for result in upward] == list(range(20))
        assert world.warnings == []


async def test_requests_are_handled_one_after_the_other_in_order_of_arrival() -> None:
    begun, may_end = [], trio.Event()

    async def slow(_: int, message: Any) -> object:
        begun.append(message.version)
        await may_end.wait()
        return ApplyMetadataResponse()

    async with _world(spu=slow) as world:
        answers = []
        for version in range(5):
            answers.append(world.start(world.sc.ask, ApplyMetadataRequest(version=version)))
            await trio.testing.wait_all_tasks_blocked()
        assert begun == [0]
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()
        assert begun == [0, 1, 2, 3, 4]
        assert answers == [[ApplyMetadataResponse()]] * 5


async def test_a_concurrent_request_holds_up_no_other() -> None:
    may_end = trio.Event()

    async def slow_forwarding(api_key: int, message: Any) -> object:
        if api_key == InternalApiKey.FORWARD:
            await may_end.wait()
        return await _obliging(api_key, message)

    async with _world(sc=slow_forwarding) as world:
        forwarded = world.start(world.spu.ask, ForwardRequest(body=b"x"))
        await trio.testing.wait_all_tasks_blocked()
        assert (await world.spu.ask(RenewLeaseRequest())).error_code == 7
        assert forwarded == []
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()
        assert forwarded[0].body == b"x"


async def test_a_handler_may_ask_the_peer_that_asked_it() -> None:
    links: list[PrivateLink] = []

    async def asks_back(api_key: int, message: Any) -> object:
        await links[0].ask(ApplyMetadataRequest())
        return await _obliging(api_key, message)

    async with _world(sc=asks_back) as world:
        links.append(world.sc)
        assert (await world.spu.ask(RenewLeaseRequest())).error_code == 7


async def test_nothing_is_read_while_too_many_requests_wait() -> None:
    handled, may_end = [], trio.Event()

    async def stuck(api_key: int, message: Any) -> object:
        handled.append(message)
        await may_end.wait()
        return await _obliging(api_key, message)

    async with _world(sc=stuck, buffer_bytes=1000) as world:
        count = REQUESTS_HELD_MAX + 100
        answers = [world.start(world.spu.ask, ForwardRequest(body=bytes(500))) for _ in range(count)]
        await trio.testing.wait_all_tasks_blocked()
        assert len(handled) == REQUESTS_HELD_MAX
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(handled) == count
        assert all(len(answer) == 1 for answer in answers)


async def test_a_request_waits_while_the_peer_does_not_read() -> None:
    big = ForwardRequest(body=bytes(1 << 20))
    spu_connection, _ = connected_pair()
    link = PrivateLink(
        spu_connection,
        serves=SPU_PRIVATE_APIS,
        asks=SC_PRIVATE_APIS,
        handle=_obliging,
        concurrent=frozenset(),
        logger=structlog.get_logger(),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        for _ in range(50):
            nursery.start_soon(link.ask, big)
        await trio.testing.wait_all_tasks_blocked()
        assert sum(map(len, link._queue)) <= 5 << 20
        nursery.cancel_scope.cancel()


async def test_frames_many_times_the_size_of_the_buffers_arrive_whole() -> None:
    sample = Random(4)
    bodies = [sample.randbytes(sample.randrange(300_000)) for _ in range(10)]
    partitions = [PartitionState(number, 1, 2, [1, 2, 3], [1]) for number in range(10_000)]
    metadata = ApplyMetadataRequest(topics=[TopicState(name=f"t{n}", partitions=partitions) for n in range(5)])
    received = []

    async def keep(api_key: int, message: Any) -> object:
        received.append(message)
        return ApplyMetadataResponse()

    async with _world(spu=keep, buffer_bytes=777) as world:
        answers = [world.start(world.spu.ask, ForwardRequest(body=body)) for body in bodies]
        await world.sc.ask(metadata)
        assert received == [metadata]
        await trio.testing.wait_all_tasks_blocked()
        assert [answer[0].body for answer in answers] == bodies


async def test_a_message_too_large_to_travel_is_refused_and_the_link_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.server.private_link.FRAME_BYTES_MAX", 1000)
    async with _world() as world:
        with pytest.raises(KafkaError) as caught:
            await world.spu.ask(ForwardRequest(body=bytes(1000)))
        assert caught.value.code == ErrorCode.INVALID_REQUEST
        assert (await world.spu.ask(RenewLeaseRequest())).error_code == 7


async def _never(api_key: int, message: object) -> object:
    await trio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize("how", ["close", "reset", "end_sending"])
async def test_pending_requests_end_when_the_peer_leaves(how: str) -> None:
    theirs, ours = connected_pair()
    link = _sc(ours, _obliging)
    ended: list[str] = []

    async def ask() -> None:
        try:
            await link.ask(DescribeReplicasRequest())
        except LinkClosed as reason:
            ended.append(str(reason))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        getattr(theirs, how)()
    assert ended == [link.closed_because]
    assert ours.closed
    with pytest.raises(LinkClosed):
        await link.ask(DescribeReplicasRequest())


async def test_closing_ends_pending_requests_of_both_sides() -> None:
    async with _world(sc=_never, spu=_never) as world:
        asked = [world.start(world.spu.ask, RenewLeaseRequest()), world.start(world.sc.ask, ApplyMetadataRequest())]
        await trio.testing.wait_all_tasks_blocked()
        world.sc.close("enough")
        await trio.testing.wait_all_tasks_blocked()
        assert [str(answer[0]) for answer in asked] == ["the peer closed the connection", "enough"]
        assert world.sc.closed_because == "enough"


async def test_a_response_given_while_finishing_still_arrives(autojump_clock: trio.testing.MockClock) -> None:
    links: list[PrivateLink] = []

    async def refuse(api_key: int, message: Any) -> object:
        links[0].finish("not today")
        return await _obliging(api_key, message)

    async with _world(sc=refuse, buffer_bytes=10) as world:
        links.append(world.sc)
        asked = [world.start(world.spu.ask, RenewLeaseRequest()) for _ in range(2)]
        await trio.testing.wait_all_tasks_blocked()
        first, second = sorted(asked, key=lambda ended: isinstance(ended[0], LinkClosed))
        assert first[0].error_code == 7
        assert isinstance(second[0], LinkClosed)
        assert (world.sc.closed_because, world.sc_connection.closed) == ("not today", True)


async def test_a_finishing_link_waits_only_a_moment_for_the_peer_to_leave(
    autojump_clock: trio.testing.MockClock,
) -> None:
    _, connection = connected_pair()
    link = _sc(connection, _obliging)
    link.finish("not today")
    with trio.fail_after(2):
        await link.run()
    assert connection.closed


async def test_the_response_to_a_cancelled_request_is_ignored() -> None:
    may_end = trio.Event()

    async def slow(api_key: int, message: Any) -> object:
        await may_end.wait()
        return await _obliging(api_key, message)

    async with _world(sc=slow) as world:
        with trio.move_on_after(0) as giving_up:
            await world.spu.ask(RenewLeaseRequest())
        assert giving_up.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert world.spu._abandoned
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (await world.spu.ask(RenewLeaseRequest())).error_code == 7
        assert not world.spu._abandoned


async def test_a_response_that_arrives_as_the_link_closes_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _world() as world:
        receive = world.sc_connection.receive_into

        def receive_and_close(buffer: memoryview) -> int | None:
            count: int | None = receive(buffer)
            if count is not None:
                world.sc.close("its lease has expired")
            return count

        monkeypatch.setattr(world.sc_connection, "receive_into", receive_and_close)
        asked = world.start(world.sc.ask, DescribeReplicasRequest())
        await trio.testing.wait_all_tasks_blocked()
        assert [str(each) for each in asked] == ["its lease has expired"]
        assert world.warnings == []


async def test_the_link_to_a_peer_that_never_responds_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    async with _world(sc=_never) as world:
        for _ in range(ABANDONED_MAX):
            with trio.move_on_after(0.001):
                await world.spu.ask(RenewLeaseRequest())
        assert world.spu.closed_because is None
        with trio.move_on_after(0.001):
            await world.spu.ask(RenewLeaseRequest())
        assert world.spu.closed_because == "the peer does not answer"
        assert world.warnings == ["private_link_unresponsive"]


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), OSError("a disk that fails")])
async def test_an_error_closes_only_the_link(error: Exception) -> None:
    async def broken(api_key: int, message: object) -> object:
        raise error

    async with _world(sc=broken) as world:
        with pytest.raises(LinkClosed):
            await world.spu.ask(RenewLeaseRequest())
        assert world.warnings == ["private_request_failed"]


async def test_a_broken_invariant_ends_the_process() -> None:
    async def broken(api_key: int, message: object) -> object:
        raise AssertionError("it cannot be")

    with pytest.raises(ExceptionGroup) as caught:
        async with _world(sc=broken) as world:
            await world.spu.ask(RenewLeaseRequest())
    assert caught.group_contains(AssertionError)


def _request(key: int, version: int, body: str = "00", correlation_id: int = 1) -> str:
    return f"00 {key:04x} {version:04x} {correlation_id:08x} ffff 00 {body}"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("", "the peer sent an empty frame"),
        ("02", "the peer sent a frame of unknown kind 2"),
        ("00 2711", "malformed request header"),
        (_request(InternalApiKey.APPLY_METADATA, 0), "API 10051 is not served here"),
        (_request(InternalApiKey.RENEW_LEASE, 1), "this server does not support RenewLease version 1"),
        (_request(InternalApiKey.FORWARD, 0, "0000"), "malformed ForwardRequest"),
        ("01 0000", "the peer sent a response that ends in its header"),
        ("01 00000009 00", "the peer responded to request 9, which was not sent"),
        ("16 03 01", "a frame of unknown kind 22"),
    ],
)
async def test_a_broken_protocol_closes_the_link(frame: str, reason: str) -> None:
    data = bytes.fromhex(frame)
    theirs, ours = connected_pair()
    theirs.send([len(data).to_bytes(4, "big") + data])
    with structlog.testing.capture_logs() as logged:
        await _sc(ours, _obliging).run()
    assert [entry["event"] for entry in logged] == ["private_request_refused"]
    assert reason in logged[0]["reason"]
    assert logged[0]["peer"] == str(ours.remote)
    assert ours.closed


@pytest.mark.parametrize("api_key", [ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.PRODUCE])
async def test_a_kafka_client_at_this_port_is_recognized(api_key: ApiKey) -> None:
    theirs, ours = connected_pair()
    client = WireClient(theirs)
    asked = bytearray(client.encode(ApiKey.API_VERSIONS, 4, ApiVersionsRequest()))
    asked[4:6] = api_key.to_bytes(2, "big")
    await client.send(asked)
    with structlog.testing.capture_logs() as logged:
        await _sc(ours, _obliging).run()
    assert api_key.name in logged[0]["reason"]
    assert await client.at_end()


async def test_a_frame_larger_than_allowed_is_refused_when_it_is_announced() -> None:
    theirs, ours = connected_pair()
    link = _sc(ours, _obliging, frame_bytes_max=100)
    theirs.send([(101).to_bytes(4, "big")])
    await link.run()
    assert "101" in (link.closed_because or "")


async def test_an_identified_peer_may_send_larger_frames() -> None:
    links: list[PrivateLink] = []

    async def trusting(api_key: int, message: Any) -> object:
        links[0].accept_frames_up_to(1000)
        return await _obliging(api_key, message)

    spu_connection, sc_connection = connected_pair()
    links.append(_sc(sc_connection, trusting, frame_bytes_max=100))
    spu = PrivateLink(
        spu_connection,
        serves=SPU_PRIVATE_APIS,
        asks=SC_PRIVATE_APIS,
        handle=_obliging,
        concurrent=frozenset(),
        logger=structlog.get_logger(),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(links[0].run)
        nursery.start_soon(spu.run)
        await spu.ask(RenewLeaseRequest())
        assert len((await spu.ask(ForwardRequest(body=bytes(900)))).body) == 900
        with pytest.raises(LinkClosed):
            await spu.ask(ForwardRequest(body=bytes(1000)))
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_second_response_is_refused(at_once: bool) -> None:
    theirs, ours = connected_pair()
    link = _sc(ours, _obliging)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        nursery.start_soon(link.ask, DescribeReplicasRequest(topics=[DescribedTopic()]))
        await trio.testing.wait_all_tasks_blocked()
        answer = bytes.fromhex("00000008 01 00000001 00 01 00")
        theirs.send([answer])
        if not at_once:
            await trio.testing.wait_all_tasks_blocked()
            assert link.closed_because is None
        theirs.send([answer])
        await trio.testing.wait_all_tasks_blocked()
        assert link.closed_because == "the peer responded to request 1, which was not sent"


async def test_our_own_programs_may_send_more_elements_than_a_client() -> None:
    heard = []

    async def hear(api_key: int, message: Any) -> object:
        heard.append(message)
        return DescribeReplicasResponse()

    question = DescribeReplicasRequest([DescribedTopic(partitions=[0] * (ELEMENTS_MAX + 1))])
    async with _world(spu=hear, buffer_bytes=1 << 20) as world:
        await world.sc.ask(question)
    assert heard == [question]


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200), whole=st.booleans(), key=st.sampled_from(list(SC_PRIVATE_APIS)))
def test_garbage_closes_the_link_or_waits_for_more(data: bytes, whole: bool, key: int) -> None:
    async def run() -> None:
        theirs, ours = connected_pair()
        framed = bytes.fromhex(_request(key, 0, "")) + data
        theirs.send([len(framed).to_bytes(4, "big") + framed if whole else data or b"x"])
        theirs.end_sending()
        with structlog.testing.capture_logs() as logged:
            await _sc(ours, _gentle).run()
        assert ours.closed
        assert {entry["event"] for entry in logged} <= {"private_request_refused"}

    trio.run(run)


async def _gentle(api_key: int, message: object) -> object:
    return SC_PRIVATE_APIS[api_key].response()


async def test_peers_that_speak_tls_are_logged_once_a_minute() -> None:
    foreign = ForeignClients()
    with capture_logs() as logged:
        for _ in range(3):
            ours, theirs = connected_pair()
            link = PrivateLink(
                ours,
                serves=SC_PRIVATE_APIS,
                asks=SPU_PRIVATE_APIS,
                handle=_obliging,
                concurrent=CONCURRENT,
                logger=structlog.get_logger(),
                foreign_clients=foreign,
            )
            theirs.send([bytes.fromhex("1603010200010001fc0303")])
            await link.run()
            assert "looks like TLS" in str(link.closed_because)
    (told,) = [entry for entry in logged if entry["event"] == "private_request_refused"]
    assert (told["connections"], told["log_level"]) == (1, "warning")

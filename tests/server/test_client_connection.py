"""Tests a client's connection over a network in memory, with a scripted SPU: turns, order, bounds and endings."""

import math
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import structlog
import trio
import trio.testing
from calling import Caller
from msgspec import Struct, field
from quota_samples import quota, server_quotas
from simulation.client import WireClient
from simulation.network import MemoryConnection, connected_pair

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.compile import decoder, encode_whole
from tailrace.protocol.codec.headers import encode_response, read_request_kind
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tailrace.runtime.files import UnreadableError
from tailrace.server.client_connection import (
    EARLY_RESPONSES,
    EMPTY_RECEIVES_MAX,
    GATHERED_BYTES_MAX,
    MUTED_BYTES_MAX,
    REQUESTS_PER_TURN,
    UNANSWERED_MAX,
    ClientConnection,
)
from tailrace.server.fairness.crowd import Crowd
from tailrace.server.fairness.large_requests import ELEMENTS_AT_ONCE, ELEMENTS_EXPECTED, LargeRequests
from tailrace.server.fairness.request_memory import STALLED_SECONDS_MAX, RequestMemory
from tailrace.server.fairness.response_memory import HELD_BYTES_MAX, SCARCE_BYTES_MAX, ResponseMemory
from tailrace.server.foreign_clients import ForeignClients
from tailrace.server.inbox import ROOM_BYTES_MAX, ArrivedRequests, Inbox, ReceiveBuffers
from tailrace.server.request_context import EncodedBody, Reply, RequestContext
from tailrace.server.request_routes import ExpectResponse, JointResponse, NewShortcut, Route
from tailrace.server.server_metrics import ServerMetrics
from tailrace.server.throttling.server_quotas import ServerQuotas
from tailrace.server.throttling.throttle_metrics import ThrottleMetrics

VERSION = 3
REQUEST_BYTES_MAX = 100_000


def _echo(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(host=request.key)


class _Script(Struct):
    """A scripted SPU: how it handles each request, and what it was asked."""

    handle: Callable[[RequestContext, FindCoordinatorRequest], object] = _echo
    new_shortcut: NewShortcut | None = None
    asked: list[str] = field(default_factory=list)
    waiting: list[RequestContext] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    _this_turn: int = 0

    def route(self, api_key: int, api_version: int) -> Route | None:
        api = API_TABLE.get(api_key)
        if api is None or not api.serves(api_version):
            return None
        return Route(decoder(api.request, api_version), self.reply, self.new_shortcut)

    def reply(self, context: RequestContext, request: object) -> Reply:
        assert isinstance(request, FindCoordinatorRequest)
        self.asked.append(request.key)
        self._this_turn += 1
        return self.handle(context, request)

    def end_turn(self) -> None:
        if self._this_turn:
            self.turns.append(self._this_turn)
        self._this_turn = 0

    def partition_count(self) -> int:
        return 1

    def on_unreadable(self, error: UnreadableError) -> None:
        raise AssertionError("no files are sent from here") from error

    def wait(self, context: RequestContext, request: FindCoordinatorRequest) -> None:
        self.waiting.append(context)


class _Served(Struct):
    client: WireClient
    connection: ClientConnection
    server_side: MemoryConnection
    metrics: ServerMetrics
    memory: RequestMemory
    ended: trio.Event

    def ask(self, *keys: str) -> bytes:
        """Requests in a row, as one stretch of bytes."""
        return b"".join(
            self.client.encode(ApiKey.FIND_COORDINATOR, VERSION, FindCoordinatorRequest(key=key)) for key in keys
        )


@asynccontextmanager
async def _served(
    script: _Script,
    *,
    buffer_bytes: int = 64 * 1024,
    shared_bytes: int = 64 * 1024,
    apis: Mapping[int, Api] = API_TABLE,
    called_by: Caller | None = None,
    quotas: ServerQuotas | None = None,
    crowd: Crowd | None = None,
    responses: ResponseMemory | None = None,
    memory: RequestMemory | None = None,
    request_bytes_max: int = REQUEST_BYTES_MAX,
    seconds_max: float = 10,
) -> AsyncIterator[_Served]:
    client_side, server_side = connected_pair(buffer_bytes=buffer_bytes)
    if called_by is not None:
        called_by.takes(server_side)
    metrics = ServerMetrics(API_TABLE)
    memory = memory or RequestMemory(10 * REQUEST_BYTES_MAX)
    connection = ClientConnection(
        server_side,
        ConnectedListener("PUBLIC", ("localhost", 9092)),
        script,
        apis,
        {},
        Inbox(ReceiveBuffers(shared_bytes), request_bytes_max),
        memory,
        metrics,
        ForeignClients(),
        structlog.get_logger(),
        quotas=server_quotas() if quotas is None else quotas,
        large_requests=LargeRequests(crowd or Crowd(busy_seconds=math.inf)),  # a slow machine makes nobody busy
        responses=responses,
    )
    ended = trio.Event()

    async def run() -> None:
        await connection.run()
        ended.set()

    with trio.fail_after(seconds_max):  # a test that hangs says where
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            yield _Served(WireClient(client_side), connection, server_side, metrics, memory, ended)
            nursery.cancel_scope.cancel()


def _counted_looks(served: _Served, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that gets the number of bytes of each receive."""
    looks: list[int] = []
    receive_into = served.server_side.receive_into

    def counted(buffer: memoryview) -> int | None:
        found = receive_into(buffer)
        looks.append(found or 0)
        return found

    monkeypatch.setattr(served.server_side, "receive_into", counted)
    return looks


async def test_a_client_that_sends_one_request_at_a_time_gets_no_extra_receives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _served(_Script()) as served:
        looks = _counted_looks(served, monkeypatch)

        async def looks_for(*keys: str) -> int:
            looks.clear()
            await served.client.send(served.ask(*keys))
            for _ in keys:
                await served.client.response()
            await trio.testing.wait_all_tasks_blocked()
            return len(looks)

        lone = [await looks_for("k") for _ in range(EMPTY_RECEIVES_MAX + 2)]
        assert lone == [2] * EMPTY_RECEIVES_MAX + [1, 1]
        assert await looks_for("several", "at once") == 2
        assert await looks_for("k") == 2, "it may have more again"


async def test_a_client_with_as_many_requests_in_flight_as_ever_gets_no_extra_receives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = _Script()
    script.handle = script.wait
    async with _served(script) as served:
        looks = _counted_looks(served, monkeypatch)

        async def vain_looks_for(*keys: str) -> int:
            looks.clear()
            await served.client.send(served.ask(*keys))
            await trio.testing.wait_all_tasks_blocked()
            return looks.count(0)

        async def answer() -> None:
            for context in script.waiting:
                context.respond(FindCoordinatorResponse(host="x"))
                await served.client.response()
            script.waiting.clear()

        assert await vain_looks_for("a", "b") == 1
        await answer()
        assert await vain_looks_for("a", "b") == 0
        assert await vain_looks_for("c") == 1, "it may have one more yet"
        await answer()
        assert await vain_looks_for("a", "b") == 1
        assert await vain_looks_for("c") == 0


async def test_requests_that_arrived_together_are_one_turn_whose_first_answers_leave_early() -> None:
    script = _Script()
    async with _served(script) as served:
        keys = [f"key-{number}" for number in range(100)]
        await served.client.send(served.ask(*keys))
        assert [(await served.client.response()).host for _ in keys] == keys
        assert script.turns == [100]
        assert served.server_side.send_calls == EARLY_RESPONSES + 1


@pytest.mark.parametrize(("key_bytes", "turns"), [(100, [2]), (GATHERED_BYTES_MAX, [1, 1])])
async def test_a_small_turn_goes_on_with_requests_that_arrive_before_its_end(key_bytes: int, turns: list[int]) -> None:
    async with _served(script := _Script()) as served:
        first, second = served.ask("first" + "x" * key_bytes), served.ask("second")

        def send_another(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
            if request.key.startswith("first"):
                assert served.client.connection.send([second]) == len(second)
            return _echo(context, request)

        script.handle = send_another
        await served.client.send(first)
        await trio.testing.wait_all_tasks_blocked()
        assert script.turns == turns


async def test_small_turns_of_several_clients_end_together_and_a_large_turn_ends_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, caller = _Script(), Caller(monkeypatch)
    async with _served(script, called_by=caller) as served:
        await served.client.send(served.ask("small"))
        assert caller.on_readable()
        assert (await served.client.response()).host == "small", "it has its answer already"
        assert script.turns == []
        caller.turn_ended()
        assert script.turns == [1]
        await served.client.send(served.ask("large" + "x" * GATHERED_BYTES_MAX))
        assert caller.on_readable()
        assert script.turns == [1, 1]


async def test_a_turn_ends_before_the_next_one_of_the_same_client(monkeypatch: pytest.MonkeyPatch) -> None:
    script, caller = _Script(), Caller(monkeypatch)
    async with _served(script, called_by=caller) as served:

        def send_another(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
            if len(script.asked) == REQUESTS_PER_TURN:
                served.client.connection.send([served.ask("another")])
            else:
                assert not script.turns or request.key == "another"
            return _echo(context, request)

        script.handle = send_another
        many = served.ask(*[""] * REQUESTS_PER_TURN)
        assert len(many) <= GATHERED_BYTES_MAX, "a small one, but for their number"
        await served.client.send(many)
        assert caller.on_readable()
        assert script.asked[-1] == "another"
        assert script.turns == [REQUESTS_PER_TURN]
        caller.turn_ended()
        assert script.turns == [REQUESTS_PER_TURN, 1]


async def test_a_client_that_leaves_during_an_extra_receive_ends_after_the_turn() -> None:
    async with _served(script := _Script()) as served:

        def go(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
            served.client.connection.close()
            return _echo(context, request)

        script.handle = go
        await served.client.send(served.ask("k"))
        await served.ended.wait()
        assert script.turns == [1]


async def test_a_turn_has_a_limit_so_that_other_clients_get_theirs(mock_clock: trio.testing.MockClock) -> None:
    script = _Script()
    async with _served(script) as served:
        keys = ["k"] * (2 * REQUESTS_PER_TURN + 1)
        await served.client.send(served.ask(*keys))
        for _ in keys:
            await served.client.response()
        assert script.turns == [REQUESTS_PER_TURN, REQUESTS_PER_TURN, 1]


async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with _served(_Script()) as served:
        for byte in served.ask("slow"):
            await served.client.send(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        assert (await served.client.response()).host == "slow"


async def test_responses_are_sent_in_request_order_whichever_is_ready_first() -> None:
    script = _Script()
    script.handle = script.wait
    async with _served(script) as served:
        await served.client.send(served.ask("a", "b", "c"))
        await trio.testing.wait_all_tasks_blocked()
        assert script.asked == ["a", "b", "c"], "one that waits does not hold up the handling of the next"
        for context in reversed(script.waiting):
            context.respond(FindCoordinatorResponse(host="x"))
        for _ in range(3):
            await served.client.response()  # checks the correlation ids


async def test_a_long_poll_does_not_hold_up_the_search_for_a_coordinator() -> None:
    hurried = []

    def handle(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse | None:
        if not request.key.startswith("patient"):
            return FindCoordinatorResponse(host=request.key)

        def hurry() -> None:
            hurried.append(request.key)
            context.respond(FindCoordinatorResponse(host=request.key))

        context.hurry = hurry
        return None

    async with _served(_Script(handle)) as served:
        await served.client.send(served.ask("first", "patient"))
        assert (await served.client.response()).host == "first"
        await trio.testing.wait_all_tasks_blocked()
        assert not hurried, "nobody waits behind it"
        for round_ in range(2):
            await served.client.send(served.ask("last", "patient"))
            assert [(await served.client.response()).host for _ in range(2)] == ["patient", "last"]
            assert len(hurried) == round_ + 1


async def test_responses_that_are_prepared_together_are_sent_together() -> None:
    script = _Script()
    script.handle = script.wait
    async with _served(script) as served:
        keys = ["a", "b", "c", "d"]
        await served.client.send(served.ask(*keys))
        await trio.testing.wait_all_tasks_blocked()
        sends = [
            context.prepare(FindCoordinatorResponse(host=key))
            for context, key in zip(script.waiting, keys, strict=True)
        ]
        (send,) = set(sends)  # one for all of this client
        send()
        assert [(await served.client.response()).host for _ in keys] == keys
        assert served.server_side.send_calls == 1
        assert served.metrics.sent_bytes > 0
        assert [counted.count for counted in served.metrics.requests.values()] == [len(keys)]


async def test_the_response_of_a_shortcut_keeps_its_place_and_is_counted() -> None:
    """Makes a shortcut that handles only requests for `at once`; the first request has no shortcut yet."""
    ordinary = served_by_shortcut = 0

    def answer(
        frame: memoryview, correlation_id: int, expect: ExpectResponse, following: ArrivedRequests
    ) -> bytes | None:
        nonlocal served_by_shortcut
        if b"at once" not in bytes(frame):
            return None
        served_by_shortcut += 1
        response = FindCoordinatorResponse(host="shortcut")
        parts = encode_response(ApiKey.FIND_COORDINATOR, VERSION, correlation_id, response)
        return b"".join(part for part in parts if isinstance(part, bytes))

    def wait_sometimes(context: RequestContext, request: FindCoordinatorRequest) -> object:
        nonlocal ordinary
        ordinary += 1
        return script.wait(context, request) if request.key == "wait" else FindCoordinatorResponse(host=request.key)

    script = _Script(wait_sometimes, lambda _: answer)
    async with _served(script) as served:
        keys = ["at once", "at once", "a", "wait", "at once", "b", "wait", "at once"]
        await served.client.send(served.ask(*keys))
        hosts = [(await served.client.response()).host for _ in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        assert (ordinary, served_by_shortcut) == (5, 3)
        for context in reversed(script.waiting):
            context.respond(FindCoordinatorResponse(host="waited"))
        hosts += [(await served.client.response()).host for _ in range(5)]
        assert hosts == ["at once", "shortcut", "a", "waited", "shortcut", "b", "waited", "shortcut"]
        assert served.metrics.requests[ApiKey.FIND_COORDINATOR, VERSION, "unknown"].count == len(keys)


async def test_a_joint_response_of_a_shortcut_has_one_place_and_counts_for_each_request() -> None:
    def answer(
        frame: memoryview, correlation_id: int, expect: ExpectResponse, following: ArrivedRequests
    ) -> JointResponse | None:
        if b"pair" not in bytes(frame) or (second := following.next_request()) is None:
            return None
        answers = [
            encode_response(ApiKey.FIND_COORDINATOR, VERSION, number, FindCoordinatorResponse(host=host))
            for number, host in ((correlation_id, "one"), (read_request_kind(second)[2], "two"))
        ]
        return JointResponse(b"".join(part for parts in answers for part in parts if isinstance(part, bytes)), 2)

    def wait_sometimes(context: RequestContext, request: FindCoordinatorRequest) -> object:
        return script.wait(context, request) if request.key == "wait" else FindCoordinatorResponse(host=request.key)

    script = _Script(wait_sometimes, lambda _: answer)
    async with _served(script) as served:
        keys = ["a", "pair", "of it", "wait", "pair", "of it", "b"]
        await served.client.send(served.ask(*keys))
        hosts = [(await served.client.response()).host for _ in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        script.waiting[0].respond(FindCoordinatorResponse(host="waited"))
        hosts += [(await served.client.response()).host for _ in range(4)]
        assert hosts == ["a", "one", "two", "waited", "one", "two", "b"]
        assert served.metrics.requests[ApiKey.FIND_COORDINATOR, VERSION, "unknown"].count == len(keys)


async def test_a_client_may_leave_with_ready_responses_behind_one_that_waits() -> None:
    abandoned: list[str] = []

    def wait(context: RequestContext, request: FindCoordinatorRequest) -> None:
        context.abandon = lambda: abandoned.append(request.key)

    script = _Script(wait, lambda _: lambda frame, _: b"at once" if b"at once" in bytes(frame) else None)
    async with _served(script) as served:
        await served.client.send(served.ask("wait", "at once"))
        await trio.testing.wait_all_tasks_blocked()
        served.client.connection.close()
        await served.ended.wait()
        assert abandoned == ["wait"]


async def test_the_next_request_waits_for_rare_work() -> None:
    done = trio.Event()

    async def rarely(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        await done.wait()
        return FindCoordinatorResponse(host=request.key)

    script = _Script(lambda context, request: rarely(request))
    async with _served(script) as served:
        await served.client.send(served.ask("first", "second"))
        await trio.testing.wait_all_tasks_blocked()
        assert script.asked == ["first"]
        done.set()
        assert [(await served.client.response()).host for _ in range(2)] == ["first", "second"]


async def test_rare_work_may_respond_later() -> None:
    waiting: list[RequestContext] = []

    async def rarely(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse | None:
        await trio.lowlevel.checkpoint()
        if request.key == "first":
            waiting.append(context)
            return None
        return FindCoordinatorResponse(host=request.key)

    async with _served(_Script(rarely)) as served:
        await served.client.send(served.ask("first", "second"))
        await trio.testing.wait_all_tasks_blocked()
        waiting[0].respond(FindCoordinatorResponse(host="late"))
        assert [(await served.client.response()).host for _ in range(2)] == ["late", "second"]


async def test_rare_work_that_has_begun_completes_without_the_client() -> None:
    may_go_on, finished = trio.Event(), trio.Event()

    async def rarely() -> FindCoordinatorResponse:
        await may_go_on.wait()
        await trio.lowlevel.checkpoint()
        finished.set()
        return FindCoordinatorResponse()

    async with _served(_Script(lambda context, request: rarely())) as served:
        await served.client.send(served.ask("create"))
        await trio.testing.wait_all_tasks_blocked()
        served.connection.close("idle")
        may_go_on.set()
        await served.ended.wait()
        assert finished.is_set()


async def test_rare_work_of_a_busy_connection_is_done_before_malformed_data_ends_it() -> None:
    finished: list[str] = []

    async def rarely(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        await trio.lowlevel.checkpoint()
        finished.append(request.key)
        return FindCoordinatorResponse(host=request.key)

    script = _Script(lambda context, request: rarely(request) if request.key == "rare" else FindCoordinatorResponse())
    async with _served(script, crowd=Crowd(busy_seconds=0)) as served:
        await served.client.send(served.ask("usual"))
        await served.client.response()
        await served.client.send(served.ask("rare") + b"\xff\xff\xff\xff")
        await served.ended.wait()
        assert finished == ["rare"]


async def test_the_connection_stops_reading_from_a_client_that_does_not_read() -> None:
    """Unsent responses have a bound; beyond it, further requests stay in the network."""
    large = "x" * 30_000
    script = _Script(lambda context, request: FindCoordinatorResponse(host=large))
    requests_max = HELD_BYTES_MAX // len(large) + 5
    async with _served(script) as served:
        keys = ["k"] * (2 * requests_max)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.client.send, served.ask(*keys))
            await trio.testing.wait_all_tasks_blocked()
            assert len(script.asked) < requests_max
            for _ in keys:
                assert (await served.client.response()).host == large
        assert served.metrics.sent_bytes > len(keys) * len(large)


async def test_responses_that_wait_for_earlier_ones_have_the_same_bound() -> None:
    """A client with one long poll and many large responses behind it must not fill the memory."""
    large = "x" * 30_000
    script = _Script()

    def answer(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse | None:
        return FindCoordinatorResponse(host=large) if request.key == "much" else script.wait(context, request)

    script.handle = answer
    count = 2 * HELD_BYTES_MAX // len(large)
    async with _served(script, buffer_bytes=1_000_000) as served:
        await served.client.send(served.ask("wait", *["much"] * count))
        await trio.testing.wait_all_tasks_blocked()
        assert HELD_BYTES_MAX // len(large) < len(script.asked) < HELD_BYTES_MAX // len(large) + 5
        script.waiting[0].respond(FindCoordinatorResponse(host="waited"))
        assert (await served.client.response()).host == "waited"
        for _ in range(count):
            assert (await served.client.response()).host == large


async def test_clients_that_do_not_read_share_a_bound_and_others_are_served() -> None:
    large = "x" * 30_000
    script = _Script(lambda context, request: FindCoordinatorResponse(host=large))
    limit = 20 * len(large)
    responses = ResponseMemory(limit)
    async with AsyncExitStack() as stack:
        reading = await stack.enter_async_context(_served(script, responses=responses))
        silent = [await stack.enter_async_context(_served(script, responses=responses)) for _ in range(50)]
        for number, served in enumerate(silent):
            served.client.connection.send([served.ask("k", "k")])
            await trio.testing.wait_all_tasks_blocked()
            served.client.connection.send([served.ask("k")])
            await trio.testing.wait_all_tasks_blocked()
            assert responses.held_bytes <= 2 * limit
            await reading.client.send(reading.ask(f"{number}", f"{number}"))
            for _ in range(2):
                assert (await reading.client.response()).host == large
        ended = [served.ended.is_set() for served in silent]
        assert ended.count(True) > 5
        assert not reading.ended.is_set()
    assert responses.held_bytes == 0


async def test_a_response_that_is_larger_than_all_connections_may_hold_is_delivered() -> None:
    large = "x" * 30_000
    script = _Script(lambda context, request: FindCoordinatorResponse(host=large))
    responses = ResponseMemory(10_000)
    async with _served(script, buffer_bytes=1000, responses=responses) as served:
        for _ in range(2):
            await served.client.send(served.ask("k"))
            await trio.testing.wait_all_tasks_blocked()
            assert responses.held_bytes > 25_000
            assert (await served.client.response()).host == large


async def test_a_connection_is_read_less_while_memory_for_responses_is_scarce() -> None:
    large = "x" * 30_000
    script = _Script(lambda context, request: FindCoordinatorResponse(host=large))
    responses = ResponseMemory(10 * HELD_BYTES_MAX)
    async with (
        _served(_Script(), responses=responses) as other,
        _served(script, buffer_bytes=100_000, responses=responses) as served,
    ):
        responses.hold(other.connection, 5 * HELD_BYTES_MAX, trio.current_time())
        await served.client.send(served.ask(*["k"] * 100))
        await trio.testing.wait_all_tasks_blocked()
        assert len(script.asked) == 4, "three responses are on their way, and one waits here"


async def test_requests_that_wait_for_their_turn_count_as_held() -> None:
    """Little of them is received while memory is scarce."""
    script, crowd = _Script(), Crowd(busy_seconds=math.inf)
    responses = ResponseMemory(10 * HELD_BYTES_MAX)
    async with (
        _served(_Script(), responses=responses) as other,
        _served(script, crowd=crowd, buffer_bytes=1_000_000, responses=responses) as served,
    ):
        await crowd.enter()
        keys = ["k" * 100] * 2 * REQUESTS_PER_TURN
        await served.client.send(served.ask(*keys))
        await trio.testing.wait_all_tasks_blocked()
        assert len(script.asked) == REQUESTS_PER_TURN, "the rest stands in line"
        assert responses.held_bytes > SCARCE_BYTES_MAX
        crowd.leave()
        for _ in range(2 * REQUESTS_PER_TURN):
            await served.client.response()
        assert responses.held_bytes == 0
        responses.hold(other.connection, 5 * HELD_BYTES_MAX, trio.current_time())
        await crowd.enter()
        await served.client.send(served.ask(*keys))
        await trio.testing.wait_all_tasks_blocked()
        assert responses.held_bytes <= 5 * HELD_BYTES_MAX + SCARCE_BYTES_MAX
        crowd.leave()
        for _ in range(2 * REQUESTS_PER_TURN):
            await served.client.response()


async def test_waiting_requests_have_a_bound_too() -> None:
    script = _Script()
    script.handle = script.wait
    async with _served(script, buffer_bytes=1_000_000) as served:
        await served.client.send(served.ask(*["k"] * 2 * UNANSWERED_MAX))
        await trio.testing.wait_all_tasks_blocked()
        asked = len(script.asked)
        assert UNANSWERED_MAX <= asked < UNANSWERED_MAX + REQUESTS_PER_TURN
        script.handle = _echo
        for context in script.waiting:
            context.respond(FindCoordinatorResponse())
        for _ in range(2 * UNANSWERED_MAX):
            await served.client.response()


async def test_requests_that_end_without_a_response_make_room_as_well() -> None:
    script = _Script()
    script.handle = script.wait
    async with _served(script, buffer_bytes=1_000_000) as served:
        await served.client.send(served.ask(*["k"] * (UNANSWERED_MAX + REQUESTS_PER_TURN + 1)))
        await trio.testing.wait_all_tasks_blocked()
        asked = len(script.asked)
        for context in list(script.waiting):
            context.respond_nothing()
        await trio.testing.wait_all_tasks_blocked()
        assert len(script.asked) > asked


@pytest.mark.parametrize("shared_bytes", [64 * 1024, 50])
async def test_a_silent_refusal_ends_the_connection_and_no_later_request_is_handled(
    shared_bytes: int,
) -> None:
    """Neither requests that arrived with it nor later ones are handled."""

    def refuse(context: RequestContext, request: FindCoordinatorRequest) -> object:
        if request.key != "bad":
            return _echo(context, request)
        context.respond_nothing(close="a record was refused")
        return None

    script = _Script(refuse)
    async with _served(script, shared_bytes=shared_bytes) as served:
        await served.client.send(served.ask("good", "bad", "behind"))
        assert (await served.client.response()).host == "good", "what was answered is not taken back"
        assert await served.client.at_end()
        served.client.connection.close()
        await served.ended.wait()
        assert script.asked == ["good", "bad"]


@pytest.mark.parametrize(
    "broken",
    [
        struct.pack(">i", -1),
        struct.pack(">i", REQUEST_BYTES_MAX + 1),
        struct.pack(">i", 0),
        struct.pack(">ihhi", 8, 30_000, 0, 1),
        struct.pack(">ihhih", 10, ApiKey.FIND_COORDINATOR, 99, 1, -1),
        struct.pack(">ihhih", 10, ApiKey.FIND_COORDINATOR, VERSION, 1, -1),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_a_broken_protocol_ends_the_connection_after_the_earlier_responses(broken: bytes) -> None:
    async with _served(_Script()) as served:
        await served.client.send(served.ask("before") + broken)
        assert (await served.client.response()).host == "before"
        assert await served.client.at_end()
        await served.ended.wait()
        assert served.metrics.refused_requests == 1


async def test_an_api_that_this_server_does_not_know_breaks_the_protocol() -> None:
    async with _served(_Script(), apis={ApiKey.METADATA: API_TABLE[ApiKey.METADATA]}) as served:
        await served.client.send(served.ask("known elsewhere"))
        assert await served.client.at_end()
        await served.ended.wait()
        assert served.metrics.refused_requests == 1


@pytest.mark.parametrize("version", [-1, 5, 32_767])
async def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_form(version: int) -> None:
    async with _served(_Script()) as served:
        await served.client.send(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, version, 7, -1))
        frame = await served.client.frame()
        assert frame is not None
        correlation_id, error, count, api_key, first, last = struct.unpack_from(">ihihhh", frame)
        assert (correlation_id, error) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert (count, api_key) == (1, ApiKey.API_VERSIONS), "enough to come again with a version we know"
        assert (first, last) == (API_TABLE[ApiKey.API_VERSIONS].min_version, API_TABLE[ApiKey.API_VERSIONS].max_version)
        assert (await served.client.request(ApiKey.FIND_COORDINATOR, VERSION, FindCoordinatorRequest(key="on"))).host


async def test_waiting_requests_of_a_client_that_has_left_are_abandoned() -> None:
    abandoned: list[str] = []
    script = _Script()

    def wait(context: RequestContext, request: FindCoordinatorRequest) -> None:
        script.waiting.append(context)
        context.abandon = lambda: abandoned.append(request.key)

    script.handle = wait
    async with _served(script) as served:
        await served.client.send(served.ask("a", "b", "c"))
        await trio.testing.wait_all_tasks_blocked()
        script.waiting[1].respond(FindCoordinatorResponse())
        served.client.connection.close()
        await served.ended.wait()
        assert abandoned == ["a", "c"]
        assert served.server_side.closed
        assert list(served.connection._outbox.unanswered) == []
        script.waiting[0].respond(FindCoordinatorResponse())  # too late, and no harm


class _BeforeStep(trio.abc.Instrument):
    """Calls a function once, before the step with this number, counted over all tasks."""

    def __init__(self, number: int, call: Callable[[], None]) -> None:
        self.raised: list[Exception] = []
        self._left = number
        self._call = call

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            try:
                self._call()
            except Exception as error:
                self.raised.append(error)


@pytest.mark.parametrize("step", range(1, 5))
@pytest.mark.parametrize("host", ["x" * 5000, None], ids=["large", "unencodable"])
async def test_a_response_while_its_client_leaves_does_not_fail_its_sender(step: int, host: str | None) -> None:
    script = _Script()
    script.handle = script.wait
    async with _served(script, buffer_bytes=1000) as served:
        await served.client.send(served.ask("a"))
        await trio.testing.wait_all_tasks_blocked()
        response = object() if host is None else FindCoordinatorResponse(host=host)
        answering = _BeforeStep(step, lambda: script.waiting[0].respond(response))
        trio.lowlevel.add_instrument(answering)
        served.client.connection.end_sending()
        await served.ended.wait()
        trio.lowlevel.remove_instrument(answering)
        assert answering.raised == []


@pytest.mark.parametrize("end", ["close", "reset", "end_sending"])
async def test_a_client_may_leave_in_the_middle_of_a_request(end: str) -> None:
    async with _served(_Script()) as served:
        await served.client.send(served.ask("whole") + served.ask("cut")[:-3])
        await trio.testing.wait_all_tasks_blocked()
        getattr(served.client.connection, end)()
        await served.ended.wait()
        assert served.memory.reserved_bytes == 0


async def test_an_incomplete_request_is_dropped_with_its_client() -> None:
    """The bytes are freed although a request whose response comes too late refers to the connection."""
    script = _Script()
    script.handle = script.wait
    async with _served(script) as served:
        await served.client.send(served.ask("waits") + served.ask("k" * 500)[:-3])
        await trio.testing.wait_all_tasks_blocked()
        assert served.connection._inbox.incomplete_bytes > 500
        served.client.connection.close()
        await served.ended.wait()
        assert served.connection._inbox.incomplete_bytes == 0


async def test_a_client_may_leave_while_it_is_being_sent_a_response() -> None:
    script = _Script(lambda context, request: FindCoordinatorResponse(host="x" * 30_000))
    async with _served(script) as served:
        await served.client.send(served.ask(*["k"] * 50))
        await trio.testing.wait_all_tasks_blocked()
        served.client.connection.close()
        await served.ended.wait()


async def test_other_clients_are_served_between_the_pieces_of_a_large_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caller, size = Caller(monkeypatch), 4 * ROOM_BYTES_MAX
    memory = RequestMemory(2 * size)
    async with _served(_Script(), buffer_bytes=size, called_by=caller, memory=memory, request_bytes_max=size) as served:
        looks = _counted_looks(served, monkeypatch)
        await served.client.send(struct.pack(">i", size) + bytes(size - 4))
        while sum(looks) < size:
            before = sum(looks)
            assert caller.on_readable()
            assert 0 < sum(looks) - before < 2 * ROOM_BYTES_MAX


async def test_memory_for_a_large_request_is_reserved_while_it_arrives() -> None:
    async with _served(_Script(), shared_bytes=1000) as served:
        await served.client.send(served.ask("x" * 30_000, "y"))
        for _ in range(2):
            await served.client.response()
        large = struct.pack(">i", 90_000)
        await served.client.send(large)
        await trio.testing.wait_all_tasks_blocked()
        assert served.memory.reserved_bytes == 90_004
        served.client.connection.close()
        await served.ended.wait()
        assert served.memory.reserved_bytes == 0


async def test_memory_for_a_large_request_is_free_as_soon_as_it_was_handled() -> None:
    async with _served(_Script(), shared_bytes=1000) as served:
        large = _large_request(served, "k")
        await served.client.send(large[:50_000])
        await trio.testing.wait_all_tasks_blocked()
        assert served.memory.reserved_bytes == len(large)
        await served.client.send(large[50_000:])
        assert (await served.client.response()).host == "k"
        assert served.memory.reserved_bytes == 0


async def test_a_client_that_trickles_a_large_request_makes_room_for_another(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script, memory = _Script(), RequestMemory(1)  # room for one large request
    begin = REQUEST_BYTES_MAX.to_bytes(4, "big") + bytes(10)
    async with (
        _served(script, memory=memory, seconds_max=60) as trickling,
        _served(script, memory=memory, seconds_max=60) as other,
    ):
        began = trio.current_time()
        for each in (trickling, other):
            await each.client.send(begin)
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(OSError):
            while True:
                await trio.sleep(1)
                await trickling.client.send(b"\0")
        assert STALLED_SECONDS_MAX <= trio.current_time() - began <= STALLED_SECONDS_MAX + 2
        assert trickling.ended.is_set() and not other.ended.is_set()
        assert memory.reserved_bytes == 4 + REQUEST_BYTES_MAX, "it is the turn of the other"


def _large_request(served: _Served, key: str) -> bytes:
    body = served.ask(key)[4:] + bytes(90_000)  # what follows the fields that are known is passed over
    return struct.pack(">i", len(body)) + body


@asynccontextmanager
async def _client_that_keeps_a_large_request(
    script: _Script, memory: RequestMemory, arrived: int
) -> AsyncIterator[_Served]:
    """A connection that has reserved the memory of a large request, and then reads no more: its client does not read
    the responses to earlier requests, which are more than a connection may hold."""
    response = FindCoordinatorResponse(host="x" * 30_000)
    begin = REQUEST_BYTES_MAX.to_bytes(4, "big") + bytes(arrived - 4)
    async with _served(script, memory=memory, buffer_bytes=300_000, seconds_max=300) as served:
        await served.client.send(served.ask(*["k"] * (HELD_BYTES_MAX // 30_000 + 20)) + begin)
        await trio.testing.wait_all_tasks_blocked()
        assert memory.reserved_bytes == 4 + REQUEST_BYTES_MAX
        for context in script.waiting:
            context.respond(response)
        await served.client.send(b"\0")
        await trio.testing.wait_all_tasks_blocked()
        yield served


async def test_a_client_that_does_not_read_keeps_no_memory_for_what_has_not_arrived() -> None:
    script, memory = _Script(), RequestMemory(1)  # room for one large request
    script.handle = script.wait
    async with (
        _client_that_keeps_a_large_request(script, memory, arrived=14) as silent,
        _served(_Script(), memory=memory) as other,
    ):
        assert memory.reserved_bytes == 0
        large = _large_request(other, "k")
        await other.client.send(large[:100])
        await other.client.send(large[100:])
        assert (await other.client.response()).host == "k"
        for _ in script.waiting:
            await silent.client.response()
        await trio.testing.wait_all_tasks_blocked()
        assert memory.reserved_bytes == 4 + REQUEST_BYTES_MAX, "the connection reads on"


async def test_a_client_that_does_not_read_is_closed_if_others_wait_for_what_has_arrived(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script, memory = _Script(), RequestMemory(1)
    script.handle = script.wait
    async with (
        _client_that_keeps_a_large_request(script, memory, arrived=80_000) as silent,
        _served(_Script(), memory=memory, seconds_max=300) as other,
    ):
        assert memory.reserved_bytes == 80_001
        await other.client.send(REQUEST_BYTES_MAX.to_bytes(4, "big") + bytes(10))
        await silent.ended.wait()
        assert not other.ended.is_set()
        await trio.testing.wait_all_tasks_blocked()
        assert memory.reserved_bytes == 4 + REQUEST_BYTES_MAX, "it is the turn of the other"


async def test_waiting_requests_keep_no_memory_of_a_large_one_that_was_handled() -> None:
    script = _Script()
    script.handle = script.wait
    async with _served(script, buffer_bytes=1_000_000, shared_bytes=1000) as served:
        await served.client.send(served.ask(*["k"] * (UNANSWERED_MAX - 1)))
        large = _large_request(served, "last")
        await served.client.send(large[:50_000])
        await trio.testing.wait_all_tasks_blocked()
        assert served.memory.reserved_bytes == len(large)
        await served.client.send(large[50_000:])
        await trio.testing.wait_all_tasks_blocked()
        assert len(script.waiting) == UNANSWERED_MAX
        assert served.memory.reserved_bytes == 0


async def test_traffic_is_counted() -> None:
    async with _served(_Script()) as served:
        request = served.ask("a", "b")
        await served.client.send(request)
        for _ in range(2):
            await served.client.response()
        assert served.metrics.received_bytes == len(request)
        assert served.metrics.requests[ApiKey.FIND_COORDINATOR, VERSION, "unknown"].count == 2


class _Limited(Struct):
    """A server on which the client with the id "test" may use a little of its time, and a script that takes long."""

    quotas: ServerQuotas
    script: _Script

    def mute(self, served: _Served, seconds: float) -> None:
        """Throttles the client as a response does that tells it to wait."""
        throttle = served.connection._throttle
        throttle._mute(round(seconds * 1000))


def _limited(script: _Script | None = None) -> _Limited:
    return _Limited(server_quotas(quota({"request_percentage": 1.0}, client_id="test")), script or _Script())


async def test_a_muted_connection_handles_nothing_and_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    limited = _limited()
    async with _served(limited.script, quotas=limited.quotas) as served:
        await served.client.send(served.ask("a"))
        assert (await served.client.response()).host == "a"
        limited.mute(served, 5)
        began = trio.current_time()
        await served.client.send(served.ask("b", "c"))
        await trio.testing.wait_all_tasks_blocked()
        assert limited.script.asked == ["a"]
        assert limited.quotas.metrics.muted_connections == 1
        await served.client.send(served.ask("d"))
        assert [(await served.client.response()).host for _ in range(3)] == ["b", "c", "d"]
        assert trio.current_time() - began == pytest.approx(5)
        assert limited.quotas.metrics.muted_connections == 0


async def test_a_muted_connection_keeps_no_memory_for_what_has_not_arrived(
    autojump_clock: trio.testing.MockClock,
) -> None:
    limited = _limited()
    async with _served(limited.script, quotas=limited.quotas) as served:
        large = _large_request(served, "k")
        await served.client.send(large[:100])
        await trio.testing.wait_all_tasks_blocked()
        assert served.memory.reserved_bytes == len(large)
        limited.mute(served, 5)
        await served.client.send(large[100:101])
        await trio.testing.wait_all_tasks_blocked()
        assert limited.quotas.metrics.muted_connections == 1
        assert served.memory.reserved_bytes == 0
        await served.client.send(large[101:])
        assert (await served.client.response()).host == "k"
        assert served.memory.reserved_bytes == 0


async def test_a_muted_connection_notices_that_its_client_leaves(autojump_clock: trio.testing.MockClock) -> None:
    limited = _limited()
    async with _served(limited.script, quotas=limited.quotas) as served:
        limited.mute(served, 5)
        served.client.connection.close()
        began = trio.current_time()
        await served.ended.wait()
        assert trio.current_time() == began


async def test_a_muted_connection_receives_little(autojump_clock: trio.testing.MockClock) -> None:
    limited = _limited()
    async with _served(limited.script, quotas=limited.quotas, buffer_bytes=4 * MUTED_BYTES_MAX) as served:
        limited.mute(served, 5)
        sent = served.ask(*("x" * 100 for _ in range(3 * MUTED_BYTES_MAX // 100)))
        await served.client.send(sent)
        await trio.testing.wait_all_tasks_blocked()
        assert served.connection._inbox._end <= MUTED_BYTES_MAX
        for _ in range(3 * MUTED_BYTES_MAX // 100):
            await served.client.response()


async def test_a_muted_connection_does_not_delay_the_end_of_the_server(autojump_clock: trio.testing.MockClock) -> None:
    limited = _limited()
    async with _served(limited.script, quotas=limited.quotas) as served:
        limited.mute(served, 50)
        await served.client.send(served.ask("a"))
        await trio.testing.wait_all_tasks_blocked()
        served.connection.finish()
        assert await served.client.at_end()
        assert trio.current_time() < 50


async def test_requests_behind_a_throttled_one_wait(autojump_clock: trio.testing.MockClock) -> None:
    """The response to the first request mutes the connection in the middle of a turn."""

    def throttle(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(host=request.key, throttle_time_ms=3000 if request.key == "first" else 0)

    limited = _limited(_Script(throttle))
    async with _served(limited.script, quotas=limited.quotas) as served:
        await served.client.send(served.ask("first", "second"))
        first = await served.client.response()
        assert (first.host, first.throttle_time_ms) == ("first", 3000)
        assert limited.script.asked == ["first"]
        began = trio.current_time()
        assert (await served.client.response()).host == "second"
        assert trio.current_time() - began == pytest.approx(3)


async def test_a_late_response_mutes_a_connection_that_waits_for_its_client(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = _Script()
    script.handle = script.wait
    limited = _limited(script)
    async with _served(script, quotas=limited.quotas) as served:
        await served.client.send(served.ask("a"))
        await trio.testing.wait_all_tasks_blocked()
        script.waiting[0].respond(FindCoordinatorResponse(host="late", throttle_time_ms=2000))
        assert (await served.client.response()).host == "late"
        script.handle = _echo
        began = trio.current_time()
        await served.client.send(served.ask("b"))
        assert (await served.client.response()).host == "b"
        assert trio.current_time() - began == pytest.approx(2)


async def test_a_response_of_the_controller_is_read_for_its_time_to_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def forwarded() -> EncodedBody:
        return EncodedBody(encode_whole(FindCoordinatorResponse(host="far", throttle_time_ms=4000), VERSION))

    limited = _limited(_Script(lambda context, request: forwarded()))
    async with _served(limited.script, quotas=limited.quotas) as served:
        await served.client.send(served.ask("a"))
        response = await served.client.response()
        assert (response.host, response.throttle_time_ms) == ("far", 4000)
        assert served.connection._throttle.is_muted


async def test_clients_with_a_quota_on_time_take_no_shortcuts_and_others_do(
    autojump_clock: trio.testing.MockClock,
) -> None:
    for client_id, quota_name, is_taken in (
        ("other", "request_percentage", True),
        ("test", "request_percentage", False),
        ("test", "producer_byte_rate", True),
    ):
        shortcut = _CountingShortcut()
        quotas = server_quotas(quota({quota_name: 1000.0}, client_id=client_id))
        async with _served(_Script(new_shortcut=lambda _: shortcut), quotas=quotas) as served:  # noqa: B023
            await served.client.send(served.ask("a", "b"))
            for _ in range(2):
                await served.client.response()
            assert bool(shortcut.asked) == is_taken


async def test_a_shortcut_gets_what_the_quota_allows_and_what_it_handles_counts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shortcut = _CountingShortcut(handles=True)
    request_bytes = 19
    limit = quota({"producer_byte_rate": 5.5 * request_bytes / 2}, client_id="test")
    quotas = server_quotas(limit, configs={"quota.window.num": "3"})
    async with _served(_Script(new_shortcut=lambda _: shortcut), quotas=quotas) as served:
        sent = served.ask(*["a"] * 10)
        assert len(sent) == 10 * (4 + request_bytes)
        await served.client.send(sent)
        hosts = [(await served.client.response()).host for _ in range(10)]
        # The first request makes the shortcut; the scripted API itself does not count.
        assert hosts == ["a", *["shortcut"] * 5, *["a"] * 4]
        await trio.sleep(4)
        await served.client.send(served.ask("a"))
        assert (await served.client.response()).host == "shortcut"


async def test_a_quota_that_is_new_counts_what_a_shortcut_handles(autojump_clock: trio.testing.MockClock) -> None:
    """The shortcut knows requests of the client from the time before."""
    shortcut = _CountingShortcut(handles=True)
    cluster = Cluster()
    quotas = ServerQuotas.of_server(cluster, BrokerConfigs({}), ThrottleMetrics())
    async with _served(_Script(new_shortcut=lambda _: shortcut), quotas=quotas) as served:
        await served.client.send(served.ask("a", "a"))
        assert [(await served.client.response()).host for _ in range(2)] == ["a", "shortcut"]
        cluster.put_security(quota({"producer_byte_rate": 0.1}, client_id="test"))
        await served.client.send(served.ask("a", "a"))
        assert [(await served.client.response()).host for _ in range(2)] == ["a", "a"]


class _CountingShortcut:
    """A shortcut that handles each request or none."""

    def __init__(self, *, handles: bool = False) -> None:
        self.asked: list[int] = []
        self._handles = handles

    def __call__(
        self, frame: memoryview, correlation_id: int, expect: ExpectResponse, following: ArrivedRequests
    ) -> bytes | None:
        self.asked.append(correlation_id)
        if not self._handles:
            return None
        response = FindCoordinatorResponse(host="shortcut")
        parts = encode_response(ApiKey.FIND_COORDINATOR, VERSION, correlation_id, response)
        return b"".join(part for part in parts if isinstance(part, bytes))


class _MetadataScript(_Script):
    """A scripted SPU that answers every request for metadata."""

    def reply(self, context: RequestContext, request: object) -> Reply:
        if not isinstance(request, MetadataRequest):
            return _Script.reply(self, context, request)
        self.asked.append(f"{len(request.topics or ())} topics")
        self._this_turn += 1
        return MetadataResponse(cluster_id="c")


async def test_a_request_with_many_elements_is_read_in_steps_and_answered_in_order() -> None:
    script = _MetadataScript()
    async with _served(script) as served:
        large = MetadataRequest([MetadataRequestTopic(name="t")] * (ELEMENTS_AT_ONCE + 1))
        await served.client.send(served.client.encode(ApiKey.METADATA, 4, large) + served.ask("behind it"))
        assert (await served.client.response()).cluster_id == "c"
        assert (await served.client.response()).host == "behind it"
        assert script.asked == [f"{ELEMENTS_AT_ONCE + 1} topics", "behind it"]


async def test_what_a_large_request_appends_is_sent_to_those_that_wait_for_it() -> None:
    """Otherwise followers would get it with the next turn of another connection, and its client would wait."""
    script = _MetadataScript()
    async with _served(script) as served:
        large = MetadataRequest([MetadataRequestTopic(name="t")] * (ELEMENTS_AT_ONCE + 1))
        await served.client.send(served.client.encode(ApiKey.METADATA, 4, large))
        await served.client.response()
        await trio.testing.wait_all_tasks_blocked()
        assert script.turns == [1]


async def test_a_large_request_that_waits_for_others_to_be_read_does_not_keep_a_server_from_stopping() -> None:
    crowd = Crowd(busy_seconds=math.inf)
    script = _MetadataScript()
    async with _served(script, crowd=crowd) as served:
        await served.client.request(ApiKey.FIND_COORDINATOR, VERSION, FindCoordinatorRequest(key="first"))
        await crowd.enter()  # nothing is read until others leave
        large = MetadataRequest([MetadataRequestTopic(name="t")] * (ELEMENTS_AT_ONCE + 1))
        await served.client.send(served.client.encode(ApiKey.METADATA, 4, large))
        await trio.testing.wait_all_tasks_blocked()
        served.connection.close("the server stops")
        await served.ended.wait()
        assert script.asked == ["first"]
        crowd.leave()


async def test_a_request_with_more_elements_than_the_cluster_explains_closes_the_connection() -> None:
    async with _served(_Script()) as served:
        large = MetadataRequest([MetadataRequestTopic(name="")] * (ELEMENTS_EXPECTED + 1))
        await served.client.send(served.client.encode(ApiKey.METADATA, 3, large))
        assert await served.client.at_end()
        assert served.metrics.refused_requests == 1


async def test_a_connection_whose_work_takes_long_stands_in_line() -> None:
    """Others that stand in line as well take their turns between two of its turns."""
    crowd = Crowd(busy_seconds=0.0)  # everything takes long
    script = _Script()
    async with _served(script, crowd=crowd) as served:
        await served.client.request(ApiKey.FIND_COORDINATOR, VERSION, FindCoordinatorRequest(key="first"))
        await crowd.enter()
        await served.client.send(served.ask("second"))
        await trio.testing.wait_all_tasks_blocked()
        assert script.asked == ["first"]
        crowd.leave()
        assert (await served.client.response()).host == "second"

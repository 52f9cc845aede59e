"""Calls end with a response or with one clear error, and the next call fails over."""

import json

import pytest
import trio
import trio.lowlevel
from scripted_http import STREAM_HEAD, Exchange, Script, answer, chunk, serve
from simulation.network import MemoryNetwork
from trio.testing import MockClock, wait_all_tasks_blocked

from tailrace.controller.key_value.etcd.etcd_gateway import LOGIN_SECONDS_MAX, NOT_FOUND, EtcdError, EtcdGateway
from tailrace.controller.key_value.etcd.etcd_login import EtcdLogin
from tailrace.controller.key_value.interface import StoreUnavailable
from tailrace.runtime.network import Address, Connection
from tailrace.security.settings.secret import Secret

ONE, TWO = Address("one", 2379), Address("two", 2379)
HEADER = {"header": {"revision": "7"}}


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork()


def answering(body: object, status: int = 200) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.send(answer(body, status))

    return script


async def hang(exchange: Exchange) -> None:
    await trio.sleep_forever()


async def test_a_call_is_a_json_document_each_way(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    async def echo(exchange: Exchange) -> None:
        await exchange.send(answer({**HEADER, "path": exchange.path, "asked": exchange.json}))

    await nursery.start(serve, network, ONE, echo)
    gateway = EtcdGateway(network, [ONE])
    assert await gateway.call("/v3/a", {"b": "1"}) == {**HEADER, "path": "/v3/a", "asked": {"b": "1"}}
    nursery.cancel_scope.cancel()


async def test_connections_are_used_again(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    connections = set()

    async def count(exchange: Exchange) -> None:
        connections.add(exchange.connection)
        await trio.lowlevel.checkpoint()
        await exchange.send(answer(HEADER))

    await nursery.start(serve, network, ONE, count)
    gateway = EtcdGateway(network, [ONE])
    for _ in range(5):
        await gateway.call("/", {})
    assert len(connections) == 1
    async with trio.open_nursery() as calls:
        for _ in range(20):
            calls.start_soon(gateway.call, "/", {})
    assert len(connections) == 20
    for _ in range(5):
        await gateway.call("/", {})
    assert len(connections) == 20
    nursery.cancel_scope.cancel()


async def test_an_error_of_etcd_has_its_code_and_words(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    body = {
        "error": "etcdserver: requested lease not found",
        "code": 5,
        "message": "etcdserver: requested lease not found",
    }
    await nursery.start(serve, network, ONE, answering(body, 404))
    with pytest.raises(EtcdError, match="etcd says: etcdserver: requested lease not found") as caught:
        await EtcdGateway(network, [ONE]).call("/", {})
    assert caught.value.code == NOT_FOUND
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("body", [b"<html>", b"", b"[1]", b"{}", b'"header"'])
@pytest.mark.parametrize("status", [200, 404])
async def test_a_server_that_is_no_etcd_is_unavailable(
    network: MemoryNetwork, nursery: trio.Nursery, body: bytes, status: int
) -> None:
    await nursery.start(serve, network, ONE, answering(body, status))
    with pytest.raises(StoreUnavailable, match="etcd at one:2379: responds as no etcd does"):
        await EtcdGateway(network, [ONE]).call("/", {})
    nursery.cancel_scope.cancel()


async def test_an_endpoint_that_cannot_be_reached_is_passed_over(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    gateway = EtcdGateway(network, [ONE, TWO])
    with pytest.raises(StoreUnavailable, match=r"etcd cannot be reached: .*one:2379; .*two:2379"):
        await gateway.call("/", {})
    await nursery.start(serve, network, TWO, answering(HEADER))
    assert await gateway.call("/", {}) == HEADER
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "script",
    [hang, answering({"error": "etcdserver: no leader", "code": 14}, 503), answering(b"<html>")],
    ids=["hangs", "has no leader", "is something else"],
)
async def test_after_an_endpoint_that_disappoints_comes_the_next(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock, script: Script
) -> None:
    await nursery.start(serve, network, ONE, script)
    await nursery.start(serve, network, TWO, answering(HEADER))
    gateway = EtcdGateway(network, [ONE, TWO])
    with pytest.raises(StoreUnavailable):
        await gateway.call("/", {})
    assert await gateway.call("/", {}) == HEADER
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("calls", [2, 3, 4])
async def test_calls_that_wait_together_pass_over_one_endpoint_and_no_more(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock, calls: int
) -> None:
    await nursery.start(serve, network, ONE, hang)
    await nursery.start(serve, network, TWO, answering(HEADER))
    gateway = EtcdGateway(network, [ONE, TWO])
    disappointed = []

    async def call(seconds_max: float) -> None:
        with pytest.raises(StoreUnavailable, match="etcd at one:2379: has not responded"):
            await gateway.call("/", {}, seconds_max)
        await trio.sleep(2)
        disappointed.append(seconds_max)
        assert await gateway.call("/", {}) == HEADER

    async with trio.open_nursery() as waiting:
        for number in range(calls):
            waiting.start_soon(call, 1 + number / 10)
    assert len(disappointed) == calls
    nursery.cancel_scope.cancel()


async def test_nothing_waits_on_where_a_call_was_not_answered_in_time(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def begin_and_hang(exchange: Exchange) -> None:
        if exchange.path == "/stream":
            await exchange.send(STREAM_HEAD)
        await trio.sleep_forever()

    await nursery.start(serve, network, ONE, begin_and_hang)
    await nursery.start(serve, network, TWO, answering(HEADER))
    gateway = EtcdGateway(network, [ONE, TWO])
    stream = await gateway.open_stream("/stream", {})

    async def call(seconds_max: float, reason: str) -> None:
        with pytest.raises(StoreUnavailable, match=f"etcd at one:2379: {reason}"):
            await gateway.call("/", {}, seconds_max)

    async with trio.open_nursery() as calls:
        calls.start_soon(call, 5, "has not responded to another call")
        calls.start_soon(call, 2, "has not responded in 2 s")
        with pytest.raises(StoreUnavailable, match="has not responded to another call"):
            await stream.next()
    assert trio.current_time() == 2
    nursery.cancel_scope.cancel()


class _SlowNetwork(MemoryNetwork):
    connect_seconds = 0.0

    async def connect(self, address: Address) -> Connection:
        await trio.sleep(self.connect_seconds)
        return await super().connect(address)


async def test_a_connection_that_came_after_its_endpoint_was_given_up_is_not_used_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    answered_by_one: list[Connection] = []

    async def answer_all_but_the_first(exchange: Exchange) -> None:
        if exchange.path == "/first":
            await trio.sleep_forever()
        answered_by_one.append(exchange.connection)
        await exchange.send(answer({**HEADER, "by": "one"}))

    network = _SlowNetwork()
    await nursery.start(serve, network, ONE, answer_all_but_the_first)
    await nursery.start(serve, network, TWO, answering({**HEADER, "by": "two"}))
    gateway = EtcdGateway(network, [ONE, TWO])

    async def disappoint() -> None:
        with pytest.raises(StoreUnavailable):
            await gateway.call("/first", {}, 1)

    async with trio.open_nursery() as calls:
        calls.start_soon(disappoint)
        await wait_all_tasks_blocked()
        network.connect_seconds = 1.5
        assert (await gateway.call("/", {}))["by"] == "one"
    with pytest.raises(OSError, match="closed"):
        answered_by_one[0].send([b"more"])
    assert (await gateway.call("/", {}))["by"] == "two"
    nursery.cancel_scope.cancel()


async def test_a_call_is_sent_once(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    asked: list[bytes] = []

    async def take_and_close(exchange: Exchange) -> None:
        asked.append(exchange.body)
        exchange.connection.close()

    await nursery.start(serve, network, ONE, take_and_close)
    await nursery.start(serve, network, TWO, take_and_close)
    with pytest.raises(StoreUnavailable, match="the server has closed the connection"):
        await EtcdGateway(network, [ONE, TWO]).call("/", {"a": 1})
    assert asked == [b'{"a": 1}']
    nursery.cancel_scope.cancel()


async def test_a_call_may_have_a_shorter_deadline(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    await nursery.start(serve, network, ONE, hang)
    gateway = EtcdGateway(network, [ONE], call_seconds_max=5)
    with pytest.raises(StoreUnavailable, match="has not responded in 2 s"):
        await gateway.call("/", {}, 2)
    assert trio.current_time() == 2
    nursery.cancel_scope.cancel()


async def test_the_answers_of_a_stream_come_whole(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    async def stream(exchange: Exchange) -> None:
        lines = b"".join(json.dumps({"result": {"number": number}}).encode() + b"\n" for number in range(5))
        await exchange.send(STREAM_HEAD + chunk(lines[:30]))
        await trio.lowlevel.checkpoint()
        await exchange.send(chunk(lines[30:]))
        await exchange.send(chunk(b'{"error": {"grpc_code": 14, "message": "no leader"}}\n'))

    await nursery.start(serve, network, ONE, stream)
    stream = await EtcdGateway(network, [ONE]).open_stream("/", {})
    assert [await stream.next() for _ in range(5)] == [{"number": number} for number in range(5)]
    with pytest.raises(EtcdError, match="no leader"):
        await stream.next()
    stream.close()
    nursery.cancel_scope.cancel()


async def test_closing_ends_what_waits(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    await nursery.start(serve, network, ONE, hang)
    gateway = EtcdGateway(network, [ONE])
    ended: list[str] = []

    async def wait() -> None:
        with pytest.raises(StoreUnavailable, match="the key-value store has been closed"):
            await gateway.call("/", {})
        ended.append("call")

    async with trio.open_nursery() as calls:
        calls.start_soon(wait)
        await wait_all_tasks_blocked()
        gateway.close()
    assert ended == ["call"]
    nursery.cancel_scope.cancel()


class _Closed:
    """An etcd that demands a token; `tokens` are those that it has given."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.valid: set[str] = set()
        self.calls: list[str] = []

    async def script(self, exchange: Exchange) -> None:
        if exchange.path == "/v3/auth/authenticate":
            assert exchange.json == {"name": "sc", "password": "opensesame"}
            self.tokens.append(f"token-{len(self.tokens)}")
            self.valid.add(self.tokens[-1])
            await exchange.send(answer({**HEADER, "token": self.tokens[-1]}))
        elif exchange.headers.get("authorization") not in self.valid:
            message = "etcdserver: invalid auth token"
            await exchange.send(answer({"error": message, "code": 16, "message": message}, 401))
        else:
            self.calls.append(exchange.path)
            await exchange.send(answer(HEADER))


async def test_calls_share_a_login_and_renew_it_once(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    etcd = _Closed()
    await nursery.start(serve, network, ONE, etcd.script)
    gateway = EtcdGateway(network, [ONE, TWO], login=EtcdLogin("sc", Secret("opensesame")))
    for made in (1, 2):
        async with trio.open_nursery() as calls:
            for _ in range(5):
                calls.start_soon(gateway.call, "/", {})
        assert len(etcd.tokens) == made
        etcd.valid.clear()  # as a restarted etcd
    assert len(etcd.calls) == 10
    nursery.cancel_scope.cancel()


async def test_a_token_that_never_helps_is_an_error(network: MemoryNetwork, nursery: trio.Nursery) -> None:
    etcd = _Closed()

    async def forget(exchange: Exchange) -> None:
        etcd.valid = set()
        await etcd.script(exchange)

    await nursery.start(serve, network, ONE, forget)
    gateway = EtcdGateway(network, [ONE], login=EtcdLogin("sc", Secret("opensesame")))
    with pytest.raises(EtcdError, match="invalid auth token"):
        await gateway.call("/", {})
    assert len(etcd.tokens) == 2
    nursery.cancel_scope.cancel()


async def test_a_call_does_not_wait_longer_than_it_may_for_the_login_of_another(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """As when a lease has to be renewed while a member hangs."""
    etcd = _Closed()
    await nursery.start(serve, network, ONE, hang)
    await nursery.start(serve, network, TWO, etcd.script)
    gateway = EtcdGateway(network, [ONE, TWO], login=EtcdLogin("sc", Secret("opensesame")))

    async def log_in() -> None:
        with pytest.raises(StoreUnavailable, match="etcd at one:2379: has not responded in 3 s"):
            await gateway.call("/", {})
        assert trio.current_time() == LOGIN_SECONDS_MAX

    async with trio.open_nursery() as calls:
        calls.start_soon(log_in)
        await wait_all_tasks_blocked()
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="another call has not finished the login"):
                await gateway.call("/renew", {}, 0.75)
        assert trio.current_time() <= 3 * 0.75
        await gateway.call("/patient", {})
    assert trio.current_time() == LOGIN_SECONDS_MAX
    await gateway.call("/renew", {}, 0.75)
    assert (etcd.calls, len(etcd.tokens)) == (["/patient", "/renew"], 1)
    nursery.cancel_scope.cancel()


async def test_a_login_that_takes_all_the_time_of_a_call_blames_no_endpoint(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    etcd = _Closed()

    async def slow(exchange: Exchange) -> None:
        if exchange.path == "/v3/auth/authenticate":
            await trio.sleep(0.7)
        await etcd.script(exchange)

    await nursery.start(serve, network, ONE, slow)
    gateway = EtcdGateway(network, [ONE, TWO], login=EtcdLogin("sc", Secret("opensesame")))
    async with trio.open_nursery() as calls:
        calls.start_soon(gateway.call, "/first", {})
        await wait_all_tasks_blocked()
        with pytest.raises(StoreUnavailable, match="another call has not finished the login"):
            await gateway.call("/renew", {}, 0.75)
    assert etcd.calls == ["/first"]
    await gateway.call("/renew", {}, 0.75)
    nursery.cancel_scope.cancel()

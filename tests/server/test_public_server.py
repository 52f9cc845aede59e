import errno
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
import trio.testing
from certificates import client_certificate, client_context
from msgspec import Struct
from quota_samples import quota
from simulation.client import WireClient
from simulation.files import SimulatedFiles
from simulation.network import CLIENT, MemoryListener, MemoryNetwork, connected_pair
from structlog.testing import capture_logs
from tls_listeners import certificate_files, server_tls

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.compile import decoder
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.runtime.files import UnreadableError
from tailrace.runtime.network import Address, receive_some
from tailrace.runtime.settings import ListenerSettings
from tailrace.runtime.tls.tls_connection import connect_tls
from tailrace.security.identity.principal import ANONYMOUS
from tailrace.security.settings.sasl_settings import parse_sasl_settings
from tailrace.security.settings.security_protocol import SecurityProtocol
from tailrace.security.settings.setting_texts import SettingTexts
from tailrace.server import public_server
from tailrace.server.client_connection import FOREIGN_SECONDS_MAX
from tailrace.server.fairness.request_memory import SMALL_BYTES
from tailrace.server.fairness.response_memory import SLOW_SECONDS
from tailrace.server.foreign_clients import LOG_INTERVAL_SECONDS
from tailrace.server.public_server import NEWCOMER_SECONDS, PublicServer
from tailrace.server.request_context import RequestContext
from tailrace.server.request_routes import Route
from tailrace.server.security import OPEN, ListenerSecurity, ServerSecurity
from tailrace.server.server_metrics import ServerMetrics
from tailrace.server.throttling.server_quotas import ServerQuotas

ADDRESS = Address("spu-1", 9005)


CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303")
OUR_MISTAKE = "divide"
BROKEN_INVARIANT = "break"
WHO_AM_I = "who"
LARGE = 2 * SMALL_BYTES
UNREAD = 2000
"""How many unread responses are more than the network buffers."""


class _Mirror:
    """Responds with the advertised address."""

    def route(self, api_key: int, api_version: int) -> Route | None:
        api = API_TABLE.get(api_key)
        if api is None or not api.serves(api_version):
            return None
        return Route(decoder(api.request, api_version), self.reply)

    def reply(self, context: RequestContext, request: object) -> object:
        assert isinstance(request, FindCoordinatorRequest)
        if request.key == OUR_MISTAKE:
            raise ZeroDivisionError("a bug")
        assert request.key != BROKEN_INVARIANT
        host, port = context.listener.advertised
        number = context.client.connection
        user = str(context.client.principal) if request.key == WHO_AM_I else context.listener.name
        return FindCoordinatorResponse(host=host, port=port, error_message=user, node_id=number)

    def end_turn(self) -> None:
        pass

    def partition_count(self) -> int:
        return 1

    def on_unreadable(self, error: UnreadableError) -> None:
        raise AssertionError("no files are sent from here") from error


class _Serving(Struct):
    network: MemoryNetwork
    listener: MemoryListener
    metrics: ServerMetrics
    configs: BrokerConfigs
    cluster: Cluster
    server: PublicServer

    async def client(self) -> WireClient:
        client = WireClient(await self.network.connect(ADDRESS))
        await trio.testing.wait_all_tasks_blocked()
        return client


async def _ask(client: WireClient) -> FindCoordinatorResponse:
    response: FindCoordinatorResponse = await client.request(
        ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="group")
    )
    return response


@asynccontextmanager
async def _serving(
    configs: Mapping[str, str] | None = None,
    *,
    advertised: Address | None = None,
    clients_max: int = 100,
    security: ServerSecurity = OPEN,
) -> AsyncIterator[_Serving]:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)
    broker_configs = BrokerConfigs(configs or {})
    metrics = ServerMetrics(API_TABLE)
    logger = structlog.get_logger()
    cluster = Cluster()
    quotas = ServerQuotas.of_server(cluster, broker_configs, metrics.throttling)
    server = PublicServer(
        _Mirror(),
        API_TABLE,
        broker_configs,
        metrics,
        logger,
        clients_max=clients_max,
        files=SimulatedFiles(),
        quotas=quotas,
        security=security,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, listener, ListenerSettings("PUBLIC", ADDRESS, advertised))
        nursery.start_soon(server.close_idle)
        yield _Serving(network, listener, metrics, broker_configs, cluster, server)
        nursery.cancel_scope.cancel()


async def test_clients_are_served_side_by_side() -> None:
    async with _serving() as serving:
        clients = [await serving.client() for _ in range(5)]
        for client in clients:
            await _ask(client)
        assert serving.metrics.accepted_connections == serving.metrics.open_connections == 5
        clients[0].connection.close()
        await trio.testing.wait_all_tasks_blocked()
        assert serving.metrics.open_connections == 4
        await _ask(clients[1])


@asynccontextmanager
async def _another_server(serving: _Serving) -> AsyncIterator[WireClient]:
    """Another server of the cluster, which has introduced itself on the private port."""
    client_side, server_side = connected_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serving.server.serve_server, server_side, "PRIVATE", ANONYMOUS)
        yield WireClient(client_side)
        nursery.cancel_scope.cancel()


async def test_other_servers_do_not_wait_for_the_memory_of_clients() -> None:
    async with _serving({"queued.max.request.bytes": "1"}) as serving, _another_server(serving) as other:
        client = await serving.client()
        await client.send(LARGE.to_bytes(4, "big"))  # it now has all memory for requests
        await trio.testing.wait_all_tasks_blocked()
        body = other.encode(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="group"))[4:]
        request = (len(body) + LARGE).to_bytes(4, "big") + body + bytes(LARGE)
        await other.send(request[:10])
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(10):
            await other.send(request[10:])
            assert (await other.response()).error_message == "PRIVATE"


async def test_other_servers_do_not_lose_their_place_to_clients_that_do_not_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _serving({"queued.max.request.bytes": "1"}) as serving, _another_server(serving) as other:
        client = await serving.client()
        request = FindCoordinatorRequest(key="group")
        for each in (other, client):
            await each.send(b"".join(each.encode(ApiKey.FIND_COORDINATOR, 3, request) for _ in range(UNREAD)))
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(2 * SLOW_SECONDS)
        await client.send(client.encode(ApiKey.FIND_COORDINATOR, 3, request))
        await trio.testing.wait_all_tasks_blocked()
        assert serving.server._responses.held_bytes and serving.server._responses_for_servers.held_bytes
        for _ in range(UNREAD):
            assert (await other.response()).error_message == "PRIVATE"


async def test_connections_have_numbers_in_the_order_of_acceptance() -> None:
    async with _serving() as serving:
        clients = [await serving.client() for _ in range(3)]
        numbers = [(await _ask(client)).node_id for client in reversed(clients)]
        assert numbers == [3, 2, 1]


async def test_a_client_that_breaks_the_protocol_leaves_its_neighbours_alone() -> None:
    async with _serving() as serving:
        good, bad = await serving.client(), await serving.client()
        await bad.send(b"\xff" * 100)
        assert await bad.at_end()
        await _ask(good)


async def test_a_bug_of_ours_closes_only_the_connection_of_one_client() -> None:
    async with _serving() as serving:
        good, unlucky = await serving.client(), await serving.client()
        await unlucky.send(unlucky.encode(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=OUR_MISTAKE)))
        assert await unlucky.at_end()
        assert serving.metrics.failed_requests == 1
        await _ask(good)


async def test_a_broken_invariant_ends_everything() -> None:
    with pytest.RaisesGroup(AssertionError, flatten_subgroups=True):
        async with _serving() as serving:
            client = await serving.client()
            await client.send(client.encode(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=BROKEN_INVARIANT)))
            await trio.sleep_forever()


@pytest.mark.parametrize("advertised", [None, Address("kafka.example", 19092)])
async def test_a_client_is_told_the_advertised_address_or_the_one_that_it_has_reached(
    advertised: Address | None,
) -> None:
    async with _serving(advertised=advertised) as serving:
        response = await _ask(await serving.client())
        assert Address(response.host, response.port) == (advertised or ADDRESS)
        assert response.error_message == "PUBLIC"


async def test_clients_beyond_the_limit_of_open_files_are_refused() -> None:
    async with _serving(clients_max=2) as serving:
        clients = [await serving.client() for _ in range(3)]
        await _ask(clients[0])
        await _ask(clients[1])
        assert await clients[2].at_end()
        assert serving.metrics.refused_connections == 1


@pytest.mark.parametrize("limit", ["max.connections", "max.connections.per.ip"])
async def test_connections_past_the_limit_are_closed_and_counted(limit: str) -> None:
    async with _serving({limit: "2"}) as serving:
        first, second = await serving.client(), await serving.client()
        third = await serving.client()
        assert await third.at_end()
        assert serving.metrics.refused_connections == 1
        await _ask(second)
        first.connection.close()
        await trio.testing.wait_all_tasks_blocked()
        await _ask(await serving.client())


async def test_a_burst_of_clients_does_not_exceed_the_limit() -> None:
    async with _serving({"max.connections": "2"}) as serving:
        clients = [WireClient(await serving.network.connect(ADDRESS)) for _ in range(10)]
        await trio.testing.wait_all_tasks_blocked()
        assert serving.metrics.open_connections == 2
        assert serving.metrics.refused_connections == 8
        await _ask(clients[0])


@pytest.mark.parametrize("beginning", [b"", b"\0\0\0\x40\0"], ids=["nothing", "a part of a request"])
async def test_a_full_server_closes_a_client_that_has_sent_no_request(
    autojump_clock: trio.testing.MockClock, beginning: bytes
) -> None:
    async with _serving({"max.connections": "3"}) as serving:
        known, silent, newer = await serving.client(), await serving.client(), await serving.client()
        await _ask(known)
        await silent.send(beginning)
        await trio.sleep(NEWCOMER_SECONDS)
        newest = await serving.client()
        assert await silent.at_end()
        await _ask(newest)
        assert serving.metrics.refused_connections == 0
        assert serving.metrics.idle_closed_connections == 1
        await _ask(newer)  # the others have kept their places
        await _ask(known)
        refused = await serving.client()
        assert await refused.at_end(), "every client has sent a request"
        assert serving.metrics.refused_connections == 1
        assert serving.metrics.open_connections == 3


async def test_a_client_that_has_only_just_connected_keeps_its_place(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving({"max.connections": "1"}) as serving:
        first = await serving.client()
        await trio.sleep(NEWCOMER_SECONDS - 0.1)
        assert await (await serving.client()).at_end()
        await _ask(first)


async def test_nobody_makes_room_for_an_address_with_too_many_clients(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving({"max.connections": "1", "max.connections.per.ip": "1"}) as serving:
        first = await serving.client()
        await trio.sleep(2 * NEWCOMER_SECONDS)
        assert await (await serving.client()).at_end()
        await _ask(first)


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving({"connections.max.idle.ms": "60000"}) as serving:
        idle, busy = await serving.client(), await serving.client()
        started = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def keep_busy() -> None:
                while True:
                    await _ask(busy)
                    await trio.sleep(20)

            nursery.start_soon(keep_busy)
            assert await idle.at_end()
            nursery.cancel_scope.cancel()
        assert 60 <= trio.current_time() - started <= 66
        assert serving.metrics.idle_closed_connections == 1
        await trio.sleep(30)
        await _ask(busy)


async def test_never_idle_is_possible(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving({"connections.max.idle.ms": "-1"}) as serving:
        client = await serving.client()
        await trio.sleep(10_000)
        await _ask(client)


async def test_an_idle_limit_of_zero_does_not_keep_the_server_busy(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving({"connections.max.idle.ms": "0"}) as serving:
        client = await serving.client()
        with trio.fail_after(1):
            assert await client.at_end()


async def test_a_limit_shortened_at_run_time_takes_effect_soon(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving() as serving:
        client = await serving.client()
        await trio.sleep(1)
        serving.configs.use_dynamic({}, {"connections.max.idle.ms": "1000"})
        started = trio.current_time()
        assert await client.at_end()
        assert trio.current_time() - started <= 11


async def test_running_out_of_file_descriptors_ends_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving() as serving:
        before = await serving.client()
        serving.listener.accept_errors += [OSError(errno.EMFILE, "too many open files")] * 3
        after = await serving.client()
        await _ask(before)
        await _ask(after)


async def test_a_client_that_speaks_http_is_told_so() -> None:
    async with _serving() as serving:
        client = await serving.client()
        await client.send(b"GET /topics HTTP/1.1\r\nHost: x\r\n\r\n")
        response = bytearray()
        buffer = memoryview(bytearray(1000))
        while count := await receive_some(client.connection, buffer):
            response += buffer[:count]
        assert response.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b"Kafka" in response.partition(b"\r\n\r\n")[2]
        assert serving.metrics.refused_requests == 1


async def test_a_client_that_speaks_http_and_does_not_leave_is_closed(autojump_clock: object) -> None:
    async with _serving() as serving:
        await (await serving.client()).send(b"GET /topics HTTP/1.1\r\n\r\n")
        await trio.sleep(FOREIGN_SECONDS_MAX + 1)
        assert serving.metrics.open_connections == 0


async def test_a_client_that_speaks_tls_is_logged_once_a_minute(autojump_clock: object) -> None:
    with capture_logs() as logs:
        async with _serving() as serving:
            for seconds in (0.05,) * 100 + (LOG_INTERVAL_SECONDS, 0):
                client = await serving.client()
                await client.send(CLIENT_HELLO)
                assert await client.at_end()
                await trio.sleep(seconds)
            assert serving.metrics.refused_requests == 102
    told = [log for log in logs if log["event"] == "request_refused"]
    assert [(log["protocol"], log["connections"]) for log in told] == [("TLS", 1), ("TLS", 101)]
    assert all("looks like TLS" in log["reason"] for log in told)


async def test_a_stranger_that_breaks_the_protocol_is_logged_once_a_minute(autojump_clock: object) -> None:
    with capture_logs() as logs:
        async with _serving() as serving:
            for seconds in (0.05,) * 10 + (LOG_INTERVAL_SECONDS, 0):
                client = await serving.client()
                await client.send(bytes(8))
                assert await client.at_end()
                await trio.sleep(seconds)
            assert serving.metrics.refused_requests == 12
    told = [log for log in logs if log["event"] == "request_refused"]
    assert [log["connections"] for log in told] == [1, 11]


# rates of new connections, with the cases of Kafka's ConnectionQuotasTest


async def test_a_listener_may_have_a_limit_of_its_own() -> None:
    async with _serving({"listener.name.public.max.connections": "2"}) as serving:
        first, _ = await serving.client(), await serving.client()
        assert await (await serving.client()).at_end()
        assert serving.metrics.refused_connections == 1
        first.connection.close()
        await trio.testing.wait_all_tasks_blocked()
        await serving.client()
        await trio.testing.wait_all_tasks_blocked()
        assert serving.metrics.open_connections == 2


async def test_a_listener_may_have_a_rate_of_its_own(autojump_clock: object) -> None:
    async with _serving({"listener.name.public.max.connection.creation.rate": "1"}) as serving:
        began = trio.current_time()
        for _ in range(20):
            await (await serving.client()).request(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest())
        assert trio.current_time() - began > 5


async def test_an_address_may_have_a_limit_of_its_own() -> None:
    limits = {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": f"{CLIENT.host}:3"}
    async with _serving(limits) as serving:
        clients = [await serving.client() for _ in range(3)]
        for client in clients:
            await _ask(client)
        assert await (await serving.client()).at_end()
        clients.pop().connection.close()
        await trio.testing.wait_all_tasks_blocked()
        await _ask(await serving.client())


async def test_clients_above_the_rate_of_the_server_wait(autojump_clock: trio.testing.MockClock) -> None:
    async with _serving({"max.connection.creation.rate": "1"}) as serving:
        began = trio.current_time()
        for _ in range(20):
            await _ask(await serving.client())
        assert 5 < trio.current_time() - began < 25
        assert serving.metrics.throttling.delayed_connections > 0
        assert serving.metrics.accepted_connections == 20


async def test_clients_above_the_rate_of_their_address_are_refused_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _serving() as serving:
        serving.cluster.put_security(quota({"connection_creation_rate": 1.0}, ip=None))
        for _ in range(10):
            await _ask(await serving.client())
        refused = await serving.client()
        began = trio.current_time()
        assert await refused.at_end()
        assert 0 < trio.current_time() - began <= 1
        assert serving.metrics.throttling.throttled_connections == 1
        assert serving.metrics.open_connections == 10
        await trio.sleep(11)
        await _ask(await serving.client())


async def test_few_refused_clients_are_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_server, "HELD_CONNECTIONS_MAX", 1)
    async with _serving() as serving:
        serving.cluster.put_security(quota({"connection_creation_rate": 1.0}, ip=None))
        for _ in range(10):
            await serving.client()
        held, closed = await serving.client(), await serving.client()
        assert await closed.at_end()
        assert held.connection.receive_into(memoryview(bytearray(1))) is None


async def _encrypted(protocol: SecurityProtocol = SecurityProtocol.SSL, **given: str) -> ServerSecurity:
    tls = server_tls(await certificate_files(), **given)
    sasl = parse_sasl_settings(SettingTexts({}), "PUBLIC") if protocol.uses_sasl else None
    return ServerSecurity({"PUBLIC": ListenerSecurity("PUBLIC", protocol, tls, sasl)})


async def test_an_encrypted_listener_serves_the_user_whom_the_certificate_names() -> None:
    async with _serving(security=await _encrypted(ssl_client_auth="required")) as serving:
        context = client_context(client_certificate("alice"))
        client = WireClient(await connect_tls(serving.network, ADDRESS, context, "localhost"))
        response = await client.request(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=WHO_AM_I))
        assert response.error_message == "User:CN=alice,OU=Sales,O=Example"
        client.connection.close()
        await trio.testing.wait_all_tasks_blocked()
        assert serving.metrics.open_connections == 0


async def test_on_a_listener_with_sasl_a_certificate_names_no_user() -> None:
    """The client has to log in, whatever its certificate says, and no rule has to apply to the name in it."""
    security = await _encrypted(
        SecurityProtocol.SASL_SSL, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^nobody$/x/"
    )
    async with _serving(security=security) as serving:
        context = client_context(client_certificate("alice"))
        client = WireClient(await connect_tls(serving.network, ADDRESS, context, "localhost"))
        response = await client.request(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=WHO_AM_I))
        assert response.error_message == "User:ANONYMOUS"


async def test_handshakes_count_as_connections_until_they_fail() -> None:
    async with _serving({"max.connections.per.ip": "1"}, security=await _encrypted()) as serving:
        half_open = await serving.client()
        with capture_logs() as logged:
            refused = await serving.client()
            assert await refused.at_end()
            await half_open.send(b"GET / HTTP/1.1\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked()
        assert [each["event"] for each in logged] == ["connection_refused", "handshake_refused"]
        assert serving.metrics.refused_handshakes == 1
        client = WireClient(await connect_tls(serving.network, ADDRESS, client_context(), "localhost"))
        await _ask(client)

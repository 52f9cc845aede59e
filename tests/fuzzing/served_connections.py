"""Sends mutated requests to clients' connections over a network in memory.

The server decodes as a real one does, and answers each request that it can decode with an empty response.
"""

from random import Random

import trio
import trio.testing
from quota_samples import server_quotas
from simulation.network import connected_pair

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.protocol.apis import API_TABLE
from tailrace.protocol.codec.compile import decoder
from tailrace.protocol.codec.headers import response_encoder
from tailrace.runtime.files import UnreadableError
from tailrace.server.client_connection import ClientConnection
from tailrace.server.fairness.request_memory import RequestMemory
from tailrace.server.foreign_clients import ForeignClients
from tailrace.server.inbox import Inbox, ReceiveBuffers
from tailrace.server.request_context import RequestContext
from tailrace.server.request_routes import ResolvedRoute, Route
from tailrace.server.server_metrics import ServerMetrics

from .mutations import mutant
from .silence import SILENT
from .targets import SAMPLES, sample_request

REQUEST_BYTES_MAX = 100_000
_BUFFER_BYTES = 64 * 1024
_PREFIX_BYTES = 4
_ROUTES: dict[tuple[int, int], ResolvedRoute] = {}
_BUFFERS = ReceiveBuffers(_BUFFER_BYTES)


class _Server:
    """Answers every request that can be decoded."""

    def route(self, api_key: int, api_version: int) -> Route | None:
        api = API_TABLE.get(api_key)
        if api is None or not api.serves(api_version):
            return None

        def answer(context: RequestContext, request: object) -> object:
            return api.response()

        return Route(decoder(api.request, api_version), answer)

    def end_turn(self) -> None:
        pass

    def partition_count(self) -> int:
        return 1

    def on_unreadable(self, error: UnreadableError) -> None:
        raise AssertionError("no files are sent from here") from error


def fill_routes() -> None:
    """Fills the cache of routes, so that it does not grow during a run."""
    server = _Server()
    for api in API_TABLE.values():
        for version in range(api.min_version, api.max_version + 1):
            route = server.route(api.key, version)
            assert route is not None, "the API is in the table"
            encode = response_encoder(api, version)
            _ROUTES[api.key, version] = ResolvedRoute(route.decode, route.handle, encode, None)


def fuzz_connections(seed: int, inputs: int) -> tuple[int, list[tuple[str, bytes]]]:
    """Sends mutated requests. Returns their number, and the bugs: what is wrong, with the input."""
    random = Random(seed)
    requests = [sample_request(random) for _ in range(4 * SAMPLES)]
    datas = [_input(random, requests) for _ in range(inputs)]
    found: list[tuple[str, bytes]] = []
    trio.run(_send_all, datas, found, clock=trio.testing.MockClock(autojump_threshold=0))
    return len(datas), found


def _input(random: Random, requests: list[bytes]) -> bytes:
    """Makes one to three requests, with a mutated one among them. Its size is right most of the time."""
    data = mutant(random, random.choice(requests), requests)
    if random.random() < 0.75:
        data = (len(data[_PREFIX_BYTES:])).to_bytes(_PREFIX_BYTES, "big") + data[_PREFIX_BYTES:]
    chance = random.random()
    if chance < 0.2:
        return random.choice(requests) + data
    return data if chance < 0.8 else data + random.choice(requests)


async def _send_all(datas: list[bytes], found: list[tuple[str, bytes]]) -> None:
    metrics = ServerMetrics(API_TABLE)
    memory = RequestMemory(10 * REQUEST_BYTES_MAX)
    for data in datas:
        failed = metrics.failed_requests
        try:
            with trio.fail_after(60):
                await _send(data, metrics, memory)
        except Exception as error:
            found.append((f"{type(error).__name__}: {error}", data))
        if metrics.failed_requests > failed:
            found.append(("the connection failed", data))
        if memory.reserved_bytes:
            found.append((f"{memory.reserved_bytes} bytes remain reserved", data))


async def _send(data: bytes, metrics: ServerMetrics, memory: RequestMemory) -> None:
    """Connects, sends the input, leaves, and waits until the server has ended the connection."""
    client, server = connected_pair(buffer_bytes=_BUFFER_BYTES)
    connection = ClientConnection(
        server,
        ConnectedListener("PUBLIC", ("localhost", 9092)),
        _Server(),
        API_TABLE,
        _ROUTES,
        Inbox(_BUFFERS, REQUEST_BYTES_MAX),
        memory,
        metrics,
        ForeignClients(),
        SILENT,
        quotas=server_quotas(),
    )
    client.send([data[:_BUFFER_BYTES]])
    client.end_sending()
    await connection.run()
    client.close()

"""Sends mutated logins to clients' connections of a listener with SASL, over a network in memory.

All mechanisms are tried, with SaslAuthenticate requests and with tokens without headers, and requests after the login.
The server's nonce is always the same, so that what a client has sent once is right the next time as well.
"""

from random import Random

import trio
import trio.testing
from sasl_samples import token
from sasl_server import TOKEN_HMAC, TOKEN_ID, SaslClient, SaslServer, bearer, plain, scram
from simulation.client import WireClient
from simulation.network import connected_pair

from tailrace.runtime.chance import RandomChance
from tailrace.runtime.files import Buffer
from tailrace.security.identity.principal import ANONYMOUS, Principal
from tailrace.security.sasl.client_exchange import ClientExchange

from .mutations import mutant
from .silence import SILENT

ALICE = Principal("User", "alice")
_PREFIX_BYTES = 4
_BUFFER_BYTES = 256 * 1024


class _FixedChance(RandomChance):
    """Chance whose secrets are always the same."""

    def secret(self, count: int) -> bytes:
        return b"\x17" * count


class _RecordingClient(WireClient):
    """A client that keeps what it sends."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.frames: list[bytes] = []

    async def send(self, data: Buffer) -> None:
        self.frames.append(bytes(data))
        await super().send(data)


def _server() -> SaslServer:
    return SaslServer(_FixedChance(1), SILENT)


def fuzz_logins(seed: int, inputs: int) -> tuple[int, list[tuple[str, bytes]]]:
    """Sends mutated logins. Returns their number, and the bugs: what is wrong, with the input."""
    random = Random(seed)
    server, found = _server(), list[tuple[str, bytes]]()
    trio.run(_fuzz, server, random, inputs, found, clock=trio.testing.MockClock(autojump_threshold=0))
    return inputs, found


async def _fuzz(server: SaslServer, random: Random, inputs: int, found: list[tuple[str, bytes]]) -> None:
    logins = await _logins(server)
    for _ in range(inputs):
        data = _input(random, logins)
        await _check(server, data, found)


async def _logins(server: SaslServer) -> list[list[bytes]]:
    """Returns what clients send who log in and ask for metadata: the frames of each of them."""
    exchanges: list[tuple[str, ClientExchange]] = [("PLAIN", plain()), ("OAUTHBEARER", bearer(token()))]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        exchanges.append((mechanism, scram(mechanism)))
        exchanges.append((mechanism, scram(mechanism, TOKEN_ID, TOKEN_HMAC, is_token=True)))
        exchanges.append((mechanism, scram(mechanism)))
    logins = []
    for number, (mechanism, exchange) in enumerate(exchanges):
        client_side, server_side = connected_pair(buffer_bytes=_BUFFER_BYTES)
        wire = _RecordingClient(client_side)
        client = SaslClient(wire)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.accept(server_side).run)
            await client.versions()
            answer = await client.log_in(exchange, mechanism, handshake=number % 3 != 2, version=number % 3)
            assert not answer.error_code, answer.error_message
            await client.metadata()
            nursery.cancel_scope.cancel()
        assert server.identity.principal == ALICE
        logins.append(wire.frames)
    return logins


def _input(random: Random, logins: list[list[bytes]]) -> bytes:
    """Changes one frame of a login, or their order. The sizes of the frames are right most of the time."""
    frames = list(random.choice(logins))
    others = [frame for login in logins for frame in login]
    place = random.randrange(len(frames))
    chance = random.random()
    if chance < 0.1:
        frames.insert(place, random.choice(others))
    elif chance < 0.2:
        del frames[place]
    elif chance < 0.25:
        random.shuffle(frames)
    else:
        data = mutant(random, frames[place], others)
        if chance < 0.9:
            data = len(data[_PREFIX_BYTES:]).to_bytes(_PREFIX_BYTES, "big") + data[_PREFIX_BYTES:]
        frames[place] = data
    return b"".join(frames)


async def _check(server: SaslServer, data: bytes, found: list[tuple[str, bytes]]) -> None:
    """Connects, sends the input, leaves, and waits until the server has ended the connection."""
    failed = server.metrics.failed_requests
    client, server_side = connected_pair(buffer_bytes=_BUFFER_BYTES)
    connection = server.accept(server_side)
    client.send([data[:_BUFFER_BYTES]])
    client.end_sending()
    try:
        with trio.fail_after(120):
            await connection.run()
    except Exception as error:
        found.append((f"{type(error).__name__}: {error}", data))
    client.close()
    if server.metrics.failed_requests > failed:
        found.append(("the connection failed", data))
    if server.memory.reserved_bytes:
        found.append((f"{server.memory.reserved_bytes} bytes remain reserved", data))
    if server.identity.principal not in (ANONYMOUS, ALICE):
        found.append((f"the client has become {server.identity.principal}", data))

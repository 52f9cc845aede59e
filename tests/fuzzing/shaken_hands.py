"""Sends mutated handshakes of TLS to the server's side of an encrypted connection, over a network in memory.

The client is the library itself. Either its first message or its answer to the server is changed on the way. Keys and
nonces come from the operating system, so that the seed does not decide them.
"""

import ssl
from random import Random

import trio
import trio.testing
from certificates import client_certificate, client_context
from simulation.network import MemoryConnection, connected_pair
from tls_listeners import certificate_files, server_tls

from tailrace.security.identity.principal import ANONYMOUS
from tailrace.server.encryption.handshakes import HANDSHAKE_SECONDS_MAX, Handshakes
from tailrace.server.encryption.server_tls import ServerTls

from .mutations import mutant
from .silence import SILENT

_BUFFER_BYTES = 256 * 1024
USER = "CN=alice,OU=Sales,O=Example"


class _Client:
    """One handshake of the library, whose messages travel by hand."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.arrived, departing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._departing = departing
        self._tls = context.wrap_bio(self.arrived, departing, server_hostname="localhost")

    def step(self) -> bytes:
        """Goes on with the handshake. Returns what must be sent next."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            return b""
        return self._departing.read()


def fuzz_handshakes(seed: int, inputs: int) -> tuple[int, list[tuple[str, bytes]]]:
    """Sends mutated handshakes. Returns their number, and the bugs: what is wrong, with the input."""
    found: list[tuple[str, bytes]] = []
    trio.run(_fuzz, Random(seed), inputs, found, clock=trio.testing.MockClock(autojump_threshold=0))
    return inputs, found


async def _fuzz(random: Random, inputs: int, found: list[tuple[str, bytes]]) -> None:
    files = await certificate_files()
    servers = [server_tls(files, ssl_client_auth=auth) for auth in ("none", "requested", "required")]
    contexts = [client_context(), client_context(client_certificate("alice"))]
    old = client_context(client_certificate("alice"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    contexts.append(old)
    handshakes = Handshakes(SILENT)
    others = [_Client(context).step() for context in contexts]
    for _ in range(inputs):
        data = b""
        try:
            with trio.fail_after(10 * HANDSHAKE_SECONDS_MAX):
                data = await _shake(random, random.choice(servers), random.choice(contexts), handshakes, others)
        except Exception as error:
            found.append((f"{type(error).__name__}: {error}", data))
        if handshakes.count:
            found.append(("a handshake remains in progress", data))
            return


async def _shake(
    random: Random, tls: ServerTls, context: ssl.SSLContext, handshakes: Handshakes, others: list[bytes]
) -> bytes:
    """Shakes hands with one message changed, and then reads what the client sends next. Returns what was sent."""
    client = _Client(context)
    client_side, server_side = connected_pair(buffer_bytes=_BUFFER_BYTES)
    changed_step = random.randrange(2)
    sent = bytearray()
    principals = []

    async def serve() -> None:
        shaken = await handshakes.shake(server_side, tls, "PUBLIC")
        if shaken is not None:
            encrypted, principal = shaken
            principals.append(principal)
            try:
                while (count := encrypted.receive_into(memoryview(bytearray(1000)))) != 0:
                    if count is None:
                        await encrypted.wait_readable()
            except OSError:
                pass  # a record that is wrong breaks the connection
            encrypted.close()
        server_side.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        for step in range(2):
            data = client.step()
            if step == changed_step:
                data = mutant(random, data or others[0], others)
            sent += data
            try:
                client_side.send([data[:_BUFFER_BYTES]])
            except OSError:
                break
            await trio.testing.wait_all_tasks_blocked()
            client.arrived.write(_received(client_side))
        client_side.close()
    if principals and principals[0] != ANONYMOUS and str(principals[0].name) != USER:
        raise AssertionError(f"the client has become {principals[0]}")
    return bytes(sent)


def _received(connection: MemoryConnection) -> bytes:
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    try:
        count = connection.receive_into(buffer)
    except OSError:
        return b""
    return bytes(buffer[: count or 0])

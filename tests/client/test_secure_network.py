"""Tests the logins of our clients with a real server in memory. compat_tests/security has TLS and processes."""

from pathlib import Path
from typing import Any

import pytest
import trio
from certificates import authority_pem
from sasl_samples import ALICE, PASSWORD, token
from sasl_server import TOKEN_HMAC, TOKEN_ID, SaslServer
from simulation.client import WireClient
from trio.testing import MockClock

from tailrace.client.client_network import secured
from tailrace.client.client_security import ClientSecurity
from tailrace.client.secure_network import SecureNetwork, tls_context
from tailrace.client.server_connection import RefusedError, Role, ServerConnection
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address, Connection, TcpNetwork
from tailrace.runtime.settings import SettingsError
from tailrace.security.settings.secret import Secret

ADDRESS = Address("broker", 9092)


class OneConnection:
    """A network with one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def listen(self, address: Address) -> Any:
        raise AssertionError("clients do not listen")

    async def connect(self, address: Address) -> Connection:
        assert address == ADDRESS
        return self._connection


async def log_in(server: SaslServer, security: ClientSecurity, *, with_sasl: bool = True) -> str:
    """Connects and logs in, and asks for something that only users may ask. Returns why the login is refused."""
    async with server.connected(with_sasl=with_sasl) as client:
        network = SecureNetwork(OneConnection(client.wire.connection), security, RealFiles(), RandomChance())
        try:
            connection = await network.connect(ADDRESS)
        except RefusedError as error:
            return str(error)
        answer = await WireClient(connection).request(ApiKey.METADATA, 12, MetadataRequest([]))
        assert answer.cluster_id is not None
    return ""


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_user_logs_in_before_anything_is_sent(autojump_clock: MockClock, mechanism: str) -> None:
    server = SaslServer()
    await log_in(server, ClientSecurity(mechanism=mechanism, user="alice", password=Secret(PASSWORD)))
    assert (server.identity.principal, server.identity.mechanism) == (ALICE, mechanism)


async def test_delegation_and_bearer_tokens_log_in(autojump_clock: MockClock, tmp_path: Path) -> None:
    server = SaslServer()
    mechanism = "SCRAM-SHA-512"
    await log_in(server, ClientSecurity(mechanism=mechanism, user=TOKEN_ID, password=Secret(TOKEN_HMAC), is_token=True))
    assert server.identity.is_token
    path = tmp_path / "token"
    path.write_text(token() + "\n")
    await log_in(server, ClientSecurity(mechanism="OAUTHBEARER", bearer_path=str(path)))
    assert server.identity.principal == ALICE


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_refusal_names_the_user_and_the_mechanism(autojump_clock: MockClock, mechanism: str) -> None:
    security = ClientSecurity(mechanism=mechanism, user="alice", password=Secret("wrong-secret"))
    reason = await log_in(SaslServer(), security)
    assert reason.startswith(f"the server at broker:9092 refuses the login of alice with {mechanism}: ")
    assert "wrong-secret" not in reason


async def test_a_mechanism_that_the_server_does_not_offer_is_named(autojump_clock: MockClock) -> None:
    security = ClientSecurity(mechanism="PLAIN", user="alice", password=Secret(PASSWORD))
    reason = await log_in(SaslServer(sasl_enabled_mechanisms="SCRAM-SHA-512"), security)
    assert reason.endswith("does not offer PLAIN; its mechanisms are: SCRAM-SHA-512")
    assert "takes no logins at this port" in await log_in(SaslServer(), security, with_sasl=False)


def test_tls_is_at_least_1_2_and_checks_names() -> None:
    context = tls_context(ClientSecurity(uses_tls=True))
    assert (context.minimum_version.name, context.check_hostname) == ("TLSv1_2", True)
    assert not tls_context(ClientSecurity(uses_tls=True, checks_names=False)).check_hostname


@pytest.mark.parametrize("content", [b"", b"nothing", b"\xfe\xed\xfe\xed"])
def test_a_truststore_without_certificates_is_refused(tmp_path: Path, content: bytes) -> None:
    """It never means that all authorities of the system are trusted."""
    (tmp_path / "ca.pem").write_bytes(content)
    (tmp_path / "client.properties").write_text(f"security.protocol=SSL\nssl.truststore.location={tmp_path}/ca.pem\n")
    with pytest.raises(SettingsError, match="a certificate cannot be used: there are no certificates of authorities"):
        secured(TcpNetwork(), str(tmp_path / "client.properties"), {})
    (tmp_path / "ca.pem").write_bytes(b"# Beh\xf6rde\n" + authority_pem())
    secured(TcpNetwork(), str(tmp_path / "client.properties"), {})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_connection_logs_in_again_before_its_session_ends(autojump_clock: MockClock, mechanism: str) -> None:
    server = SaslServer(connections_max_reauth_ms="10000")
    security = ClientSecurity(mechanism=mechanism, user="alice", password=Secret(PASSWORD))
    async with server.connected() as client:
        network = SecureNetwork(OneConnection(client.wire.connection), security, RealFiles(), RandomChance())
        asked = ServerConnection(await network.connect(ADDRESS), ADDRESS, Role("broker", ""), API_TABLE)
        for pause, repeated in ((0, 0), (6, 0), (3, 1), (9, 2), (1, 2)):
            await trio.sleep(pause)
            assert (await asked.ask(MetadataRequest([]), 12)).cluster_id is not None
            assert server.counts.repeated_logins == repeated


async def test_a_server_that_refuses_the_second_login_is_named(autojump_clock: MockClock) -> None:
    server = SaslServer(connections_max_reauth_ms="10000")
    security = ClientSecurity(mechanism="PLAIN", user="alice", password=Secret(PASSWORD))
    async with server.connected() as client:
        network = SecureNetwork(OneConnection(client.wire.connection), security, RealFiles(), RandomChance())
        asked = ServerConnection(await network.connect(ADDRESS), ADDRESS, Role("broker", ""), API_TABLE)
        server.host.cluster.security.remove("user", "alice")
        await trio.sleep(9)
        with pytest.raises(RefusedError, match="refuses the login of alice with PLAIN"):
            await asked.ask(MetadataRequest([]), 12)

import ssl

import pytest
import structlog
import trio
from certificates import client_certificate, client_context, unreadable_certificate
from simulation.network import MemoryConnection, connected_pair
from structlog.testing import capture_logs
from structlog.typing import EventDict
from tls_listeners import certificate_files, server_tls

from tailrace.runtime.tls.tls_connection import TlsConnection
from tailrace.security.identity.principal import Principal
from tailrace.server.encryption import handshakes
from tailrace.server.encryption.handshakes import HANDSHAKE_SECONDS_MAX, Handshakes


async def shake_with(client: ssl.SSLContext, **given: str) -> tuple[Principal | None, list[EventDict]]:
    """Returns the user if the handshake succeeds, and what was logged."""
    near, far = connected_pair()
    connection = TlsConnection(near, client, server_name="localhost")
    found: list[Principal | None] = []

    async def accept(shaking: Handshakes) -> None:
        shaken = await shaking.shake(far, server_tls(await certificate_files(), **given), "PUBLIC")
        found.append(None if shaken is None else shaken[1])
        if shaken is None:
            far.close()

    with capture_logs() as logged:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept, Handshakes(structlog.get_logger()))
            try:
                await connection.shake_hands()
            except OSError:
                near.close()
    return found[0], logged


async def test_a_handshake_returns_the_user() -> None:
    client = client_context(client_certificate("alice"))
    user, logged = await shake_with(client, ssl_client_auth="required")
    assert str(user) == "User:CN=alice,OU=Sales,O=Example"
    assert logged == []


async def test_a_client_without_the_required_certificate_is_refused() -> None:
    user, (line,) = await shake_with(client_context(), ssl_client_auth="required")
    assert user is None
    assert line["event"] == "handshake_refused"
    assert line["reason"] == "the client has shown no certificate, and the listener requires one"
    assert line["client"] == "192.0.2.1:50000"


async def test_an_old_version_of_tls_is_refused() -> None:
    client = client_context()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    user, (line,) = await shake_with(client, ssl_enabled_protocols="TLSv1.3")
    assert user is None
    assert "refuses; it takes 1.2 and 1.3" in line["reason"]


async def test_a_client_that_does_not_trust_the_server_is_refused() -> None:
    user, (line,) = await shake_with(ssl.create_default_context())
    assert user is None
    assert line["reason"] == "the client does not trust the certificate of this server"


async def test_a_certificate_for_which_there_is_no_rule_is_refused() -> None:
    client = client_context(client_certificate("alice"))
    user, (line,) = await shake_with(
        client, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=bob.*$/bob/"
    )
    assert user is None
    assert "no rule of ssl.principal.mapping.rules applies" in line["reason"]


async def test_a_certificate_with_a_name_that_is_no_text_is_refused() -> None:
    """It ended the server: nothing else in a handshake raises an error that is not one of the operating system."""
    user, (line,) = await shake_with(client_context(unreadable_certificate()), ssl_client_auth="required")
    assert user is None
    assert line["reason"] == "the certificate of the peer has a name that is no text"


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x20\0\x12\0\x04" + bytes(30)])
async def test_a_client_without_tls_is_refused_with_advice(data: bytes) -> None:
    near, far = connected_pair()
    near.send([data])
    with capture_logs() as logged:
        assert (
            await Handshakes(structlog.get_logger()).shake(far, server_tls(await certificate_files()), "PUBLIC") is None
        )
    assert logged[0]["reason"] == "the client does not speak TLS: set security.protocol=SSL in the client"


async def test_a_half_open_handshake_ends_in_time(autojump_clock: trio.testing.MockClock) -> None:
    _, far = connected_pair()
    with capture_logs() as logged:
        assert (
            await Handshakes(structlog.get_logger()).shake(far, server_tls(await certificate_files()), "PUBLIC") is None
        )
    assert trio.current_time() == pytest.approx(HANDSHAKE_SECONDS_MAX)
    assert "within 10 s" in logged[0]["reason"]


async def test_the_oldest_of_too_many_handshakes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 3)
    shaking, server = Handshakes(structlog.get_logger()), server_tls(await certificate_files())
    ended: list[int] = []

    async def shake(number: int, connection: MemoryConnection) -> None:
        await shaking.shake(connection, server, "PUBLIC")
        ended.append(number)

    with capture_logs() as logged:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(shake, number, connected_pair()[1])
                await trio.testing.wait_all_tasks_blocked()
            assert ended == [0, 1]
            assert shaking.count == 3
            nursery.cancel_scope.cancel()
    assert "3 handshakes were in progress" in logged[0]["reason"]
    assert len(logged) == 1, "one line a minute for each address"

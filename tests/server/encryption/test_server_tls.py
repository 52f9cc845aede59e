import pytest
import trio
from certificates import authority_pem, client_certificate, client_context, server_certificate
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from simulation.files import SimulatedFiles
from simulation.network import connected_pair
from structlog.testing import capture_logs
from tls_listeners import certificate_files, server_tls

from tailrace.runtime.settings import SettingsError
from tailrace.runtime.tls.tls_connection import TlsConnection
from tailrace.server.encryption.server_tls import CHECK_SECONDS, ServerTls


async def shaken(server: ServerTls, certificate: bytes = b"") -> tuple[TlsConnection, TlsConnection]:
    near, far = connected_pair()
    client = TlsConnection(near, client_context(certificate), server_name="localhost")
    accepted = server.accept(far)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.shake_hands)
        nursery.start_soon(accepted.shake_hands)
    return client, accepted


async def test_a_certificate_names_the_user() -> None:
    server = server_tls(
        await certificate_files(), ssl_client_auth="requested", ssl_principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/"
    )
    _, accepted = await shaken(server, client_certificate("alice"))
    assert str(server.principal_of(accepted)) == "User:alice"
    _, accepted = await shaken(server)
    assert str(server.principal_of(accepted)) == "User:ANONYMOUS"


async def test_without_rules_the_user_has_the_distinguished_name() -> None:
    server = server_tls(await certificate_files(), ssl_client_auth="required")
    _, accepted = await shaken(server, client_certificate("alice"))
    assert str(server.principal_of(accepted)) == "User:CN=alice,OU=Sales,O=Example"


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_only_the_versions_of_the_settings_are_spoken(version: str) -> None:
    client, accepted = await shaken(server_tls(await certificate_files(), ssl_enabled_protocols=version))
    assert client.version == accepted.version == version


async def test_a_key_and_certificates_can_be_given_as_texts() -> None:
    key, marker, chain = server_certificate().decode().partition("-----BEGIN CERT")
    server = server_tls(
        SimulatedFiles(),
        ssl_keystore_location="",
        ssl_keystore_key=key,
        ssl_keystore_certificate_chain=marker + chain,
        ssl_truststore_location="",
    )
    await shaken(server)


async def test_changed_files_are_read_again_and_connections_live_on(autojump_clock: trio.testing.MockClock) -> None:
    made = await certificate_files()
    server = server_tls(made)
    client, accepted = await shaken(server)
    before = client.peer_certificate()
    await made.replace("/server.pem", server_certificate("localhost", "new.example"))
    await trio.sleep(CHECK_SECONDS)
    with capture_logs() as logged:
        renewed, _ = await shaken(server)
    assert [each["event"] for each in logged] == ["certificate_reloaded"]
    assert renewed.peer_certificate() != before
    client.send((b"still here",))
    assert accepted.receive_into(memoryview(bytearray(20))) == 10


async def test_wrong_files_are_logged_once_and_not_used(autojump_clock: trio.testing.MockClock) -> None:
    made = await certificate_files()
    server = server_tls(made)
    await made.replace("/server.pem", b"half written")
    with capture_logs() as logged:
        for _ in range(3):
            await trio.sleep(CHECK_SECONDS)
            await shaken(server)
    assert [each["event"] for each in logged] == ["certificate_not_reloaded"]
    assert "/server.pem" in logged[0]["reason"]


async def test_a_truststore_may_have_comments_in_any_encoding(autojump_clock: trio.testing.MockClock) -> None:
    made = await certificate_files()
    await made.replace("/ca.pem", b"# Beh\xf6rde\n" + authority_pem())
    server = server_tls(made, ssl_client_auth="required")
    await shaken(server, client_certificate("alice"))
    await made.replace("/ca.pem", "# Behörde\n".encode() + authority_pem())
    await trio.sleep(CHECK_SECONDS)
    with capture_logs() as logged:
        await shaken(server, client_certificate("alice"))
    assert [each["event"] for each in logged] == ["certificate_reloaded"]


@pytest.mark.parametrize("content", [b"", b"\xfe\xed\xfe\xed\x00\x02", b"\x30\x82\x01\xff", "ö".encode()])
async def test_a_truststore_that_becomes_something_else_is_not_used(
    autojump_clock: trio.testing.MockClock, content: bytes
) -> None:
    made = await certificate_files()
    server = server_tls(made, ssl_client_auth="required")
    await made.replace("/ca.pem", content)
    with capture_logs() as logged:
        for _ in range(2):
            await trio.sleep(CHECK_SECONDS)
            await shaken(server, client_certificate("alice"))
    assert [(each["event"], "/ca.pem has no certificates" in each["reason"]) for each in logged] == [
        ("certificate_not_reloaded", True)
    ]
    with pytest.raises(SettingsError, match=r"/ca.pem has no certificates of authorities"):
        server_tls(made)


async def test_no_failure_to_read_a_file_ends_a_server(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await certificate_files()
    server = server_tls(made)

    def fail(path: str) -> bytes:
        raise MemoryError

    monkeypatch.setattr(made, "read", fail)
    await trio.sleep(CHECK_SECONDS)
    with capture_logs() as logged:
        await shaken(server)
    assert [(each["event"], each["reason"]) for each in logged] == [("certificate_not_reloaded", "MemoryError")]


async def test_files_that_cannot_be_used_are_refused_at_the_start() -> None:
    made = await certificate_files()
    with pytest.raises(SettingsError, match=r"ssl.keystore.location /missing.pem: no such simulated file"):
        server_tls(made, ssl_keystore_location="/missing.pem")
    await made.replace("/ca.pem", b"nothing")
    with pytest.raises(SettingsError, match=r"/ca.pem has no certificates of authorities"):
        server_tls(made)
    await made.replace("/server.pem", server_certificate().partition(b"-----BEGIN CERT")[0])
    with pytest.raises(SettingsError, match=r"/server.pem is not the private key of a server with its certificates"):
        server_tls(made)


def _pkcs12(pem: bytes, password: bytes = b"store-secret") -> bytes:
    """Returns the key and the certificates of a PEM text in the format PKCS12."""
    own, *others = x509.load_pem_x509_certificates(pem)
    key = serialization.load_pem_private_key(pem, None) if b"PRIVATE KEY" in pem else None
    encryption = serialization.BestAvailableEncryption(password)
    if key is None:
        return pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(own, b"authority")], encryption)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return pkcs12.serialize_key_and_certificates(b"server", key, own, others, encryption)


PKCS12 = {
    f"ssl_{store}_{name}": text
    for store in ("keystore", "truststore")
    for name, text in (("type", "PKCS12"), ("password", "store-secret"))
}


async def test_java_stores_can_be_used_and_are_read_again(autojump_clock: trio.testing.MockClock) -> None:
    files = SimulatedFiles()
    await files.replace("/server.pem", _pkcs12(server_certificate()))
    await files.replace("/ca.pem", _pkcs12(authority_pem()))
    server = server_tls(files, ssl_client_auth="required", **PKCS12)
    client, accepted = await shaken(server, client_certificate("alice"))
    assert str(server.principal_of(accepted)) == "User:CN=alice,OU=Sales,O=Example"
    before = client.peer_certificate()
    await files.replace("/server.pem", _pkcs12(server_certificate("localhost", "new.example")))
    await trio.sleep(CHECK_SECONDS)
    client, _ = await shaken(server, client_certificate("alice"))
    assert client.peer_certificate() != before


async def test_a_java_store_with_another_password_is_refused() -> None:
    files = await certificate_files()
    await files.replace("/server.pem", _pkcs12(server_certificate(), b"another"))
    given = {name: text for name, text in PKCS12.items() if "keystore" in name}
    with pytest.raises(SettingsError, match="is not a store in the format PKCS12, or its password is wrong"):
        server_tls(files, **given)

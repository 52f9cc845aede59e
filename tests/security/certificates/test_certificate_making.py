"""Certificates that are made here: OpenSSL takes them for what they are."""

import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from tailrace.security.certificates.certificate_making import (
    Authority,
    CertificateError,
    make_authority,
    make_client_certificate,
    make_server_certificate,
)

NOW = int(time.time() * 1000)


def contexts(
    path: Path, authority: Authority, server: bytes, client: bytes | None
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    accepting, connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    (path / "server.pem").write_bytes(server)
    accepting.load_cert_chain(path / "server.pem")
    accepting.load_verify_locations(cadata=authority.certificate.decode())
    accepting.verify_mode = ssl.CERT_REQUIRED if client is not None else ssl.CERT_NONE
    connecting.load_verify_locations(cadata=authority.certificate.decode())
    connecting.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        (path / "client.pem").write_bytes(client)
        connecting.load_cert_chain(path / "client.pem")
    return accepting, connecting


def shake_hands(accepting: ssl.SSLContext, connecting: ssl.SSLContext, host: str) -> object:
    """Returns the subject that the server sees."""
    here, there = socket.socketpair()
    seen: list[object] = []

    def serve() -> None:
        with accepting.wrap_socket(there, server_side=True) as encrypted:
            seen.append((encrypted.getpeercert() or {}).get("subject"))
            encrypted.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with connecting.wrap_socket(here, server_hostname=host) as encrypted:
            encrypted.send(b"x")
    finally:
        here.close()
        thread.join()
    return seen[0]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "broker.example"])
def test_a_client_trusts_the_server_at_each_of_its_hosts(tmp_path: Path, host: str) -> None:
    authority = make_authority("Orders CA", NOW)
    server = make_server_certificate(authority, "spu-1", ["localhost", "127.0.0.1", "::1", "broker.example"], NOW)
    shake_hands(*contexts(tmp_path, authority, server, None), host)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_refuses_another_host(tmp_path: Path) -> None:
    authority = make_authority("Orders CA", NOW)
    server = make_server_certificate(authority, "spu-1", ["localhost"], NOW)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(*contexts(tmp_path, authority, server, None), "broker.example")


def test_a_server_sees_the_name_of_a_client(tmp_path: Path) -> None:
    authority = make_authority("Orders CA", NOW)
    server = make_server_certificate(authority, "spu-1", ["localhost"], NOW)
    client = make_client_certificate(authority, "alice", NOW)
    subject = shake_hands(*contexts(tmp_path, authority, server, client), "localhost")
    assert subject == ((("commonName", "alice"),),)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_certificate_of_another_authority_with_the_same_name_is_refused(tmp_path: Path) -> None:
    authority, other = make_authority("Orders CA", NOW), make_authority("Orders CA", NOW)
    server = make_server_certificate(other, "spu-1", ["localhost"], NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(*contexts(tmp_path, authority, server, None), "localhost")


def test_names_and_hosts_that_no_certificate_can_have_are_refused() -> None:
    authority = make_authority("Orders CA", NOW)
    with pytest.raises(CertificateError, match="not a name of 1 to 64 characters"):
        make_client_certificate(authority, "x" * 65, NOW)
    with pytest.raises(CertificateError, match="not the name or address of a host"):
        make_server_certificate(authority, "spu-1", ["bröker"], NOW)


def test_an_authority_that_is_not_pem_is_refused_and_its_key_is_not_shown() -> None:
    authority = make_authority("Orders CA", NOW)
    with pytest.raises(CertificateError, match="is not PEM"):
        make_client_certificate(Authority(b"x", authority.key), "alice", NOW)
    assert "PRIVATE" not in repr(authority)

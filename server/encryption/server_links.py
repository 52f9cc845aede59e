"""Connections between our own servers, on private ports: plain, or encrypted with a certificate on both sides.

Each side checks that an authority of the cluster has signed the certificate of the other side, and which servers it
names. A stranger who reaches a private port has no such certificate, and so cannot claim to be a server.
"""

from tailrace.runtime.network import Address, Connection, Network
from tailrace.runtime.tls.tls_connection import TlsConnection
from tailrace.security.identity.server_names import names_in

from .refusal_reasons import refusal_of
from .server_tls import ServerTls


class ForgedNameError(ConnectionError):
    """A server claims to be another one than its certificate says. The message is one sentence."""


async def connect_to_server(network: Network, address: Address, name: str, tls: ServerTls | None) -> Connection:
    """Connects to another server, which must have the name if the private ports are encrypted.

    Raises OSError with the reason. The caller bounds the time.
    """
    connection = await network.connect(address)
    if tls is None:
        return connection
    encrypted = tls.connect(connection)
    try:
        await _shake_hands(encrypted)
        check_name(encrypted, name)
    except BaseException:
        encrypted.close()
        raise
    return encrypted


async def accept_server(connection: Connection, tls: ServerTls | None) -> Connection:
    """Shakes hands with a server that has connected, if the private ports are encrypted.

    Raises OSError with the reason. The caller bounds the time, and closes the connection.
    """
    if tls is None:
        return connection
    encrypted = tls.accept(connection)
    await _shake_hands(encrypted)
    return encrypted


def check_name(connection: Connection, name: str) -> None:
    """Raises ForgedNameError unless the certificate of the other side has the name. Plain connections have none."""
    if not isinstance(connection, TlsConnection):
        return
    names = names_in(connection.peer_certificate() or {})
    if name not in names:
        shown = ", ".join(sorted(names)[:5]) or "no server"
        raise ForgedNameError(f"the certificate of {connection.remote} is for {shown}, and not for {name}")


async def _shake_hands(connection: TlsConnection) -> None:
    try:
        await connection.shake_hands()
    except OSError as error:
        raise ConnectionError(f"no TLS with {connection.remote}: {refusal_of(error)}") from error

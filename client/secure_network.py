"""A network whose connections are encrypted and logged in before anything uses them, as a client's settings say.

It takes the place of the network in any code that connects to servers, so that this code knows nothing of security.
If the server ends sessions after a time, the connection logs in again before that (KIP-368).
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import inf

import trio

from tailrace.protocol.apis import Api, ApiKey, table_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tailrace.runtime.chance import Chance
from tailrace.runtime.files import Buffer, File, Files
from tailrace.runtime.network import Address, Connection, Listener, Network
from tailrace.runtime.tls.certificate_loading import client_context, load_certificate
from tailrace.runtime.tls.tls_connection import shaken_by_client
from tailrace.security.sasl.client_exchange import BearerClient, ClientExchange, ExchangeError, PlainClient, ScramClient

from .client_security import OAUTHBEARER, PLAIN, ClientSecurity
from .server_connection import RefusedError, Role, ServerConnection, error_name

LOGIN_SECONDS_MAX = 10.0
"""How long a handshake and a login may take together."""
RENEWED_PART = 0.85
"""The part of a session after which a connection logs in again."""
RENEWAL_SECONDS_MIN = 1.2
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION, _FLEXIBLE_FROM = 1, 2, 2
_NEVER = 0x7FFF
_SERVER = Role("server", "Check the security settings of the client, and the log of the server")
LOGIN_APIS: Mapping[int, Api] = table_of(
    Api(ApiKey.SASL_HANDSHAKE, 0, 1, _NEVER, 0, _NEVER),
    Api(ApiKey.SASL_AUTHENTICATE, 0, 2, _FLEXIBLE_FROM, 0, _FLEXIBLE_FROM),
)


class SecureNetwork:
    """Connects as `ClientSecurity` says."""

    def __init__(self, network: Network, security: ClientSecurity, files: Files, chance: Chance) -> None:
        """Prepares the network. Raises OSError (`ssl.SSLError`) if a certificate cannot be used."""
        self._network = network
        self._security = security
        self._files = files
        self._chance = chance
        self._context = tls_context(security) if security.uses_tls else None

    @property
    def proves_identity(self) -> bool:
        """Whether servers learn who the client is, by a login or by its certificate."""
        return self._security.mechanism is not None or self._security.certificate is not None

    def as_user(self, user: str, password: str) -> "SecureNetwork | None":
        """Returns a network that logs in as another user; None if this one does not log in."""
        if self._security.mechanism is None:
            return None
        return SecureNetwork(self._network, self._security.as_user(user, password), self._files, self._chance)

    async def listen(self, address: Address) -> Listener:
        """Listens without security, which is only for servers."""
        return await self._network.listen(address)

    async def connect(self, address: Address) -> Connection:
        """Connects, and returns when both sides trust each other. Raises OSError, and RefusedError for a login."""
        connection = await self._network.connect(address)
        try:
            with trio.fail_after(LOGIN_SECONDS_MAX):
                if self._context is not None:
                    connection = await shaken_by_client(connection, self._context, address.host)
                if self._security.mechanism is not None:
                    seconds = await self._log_in(connection, address)
                    if seconds:
                        connection = SessionConnection(connection, partial(self._log_in, connection, address), seconds)
        except trio.TooSlowError:
            connection.close()
            raise OSError(f"it has not finished the login within {LOGIN_SECONDS_MAX:g} s") from None
        except BaseException:
            connection.close()
            raise
        return connection

    async def _log_in(self, connection: Connection, address: Address) -> float:
        """Logs in, and returns for how many seconds; 0 for no limit. Raises UnreachableError and RefusedError."""
        server = ServerConnection(connection, address, _SERVER, LOGIN_APIS)
        mechanism, exchange = self._security.mechanism, self._new_exchange()
        answer = await server.ask(SaslHandshakeRequest(mechanism or ""), _HANDSHAKE_VERSION)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            raise RefusedError(
                f"the server at {server.address} does not offer {mechanism}; its mechanisms are: {offered}",
                answer.error_code,
            )
        if answer.error_code:
            raise RefusedError(
                f"the server at {server.address} takes no logins at this port ({error_name(answer.error_code)}); set "
                "security.protocol to PLAINTEXT or SSL",
                answer.error_code,
            )
        data: bytes | None = exchange.first()
        try:
            while data is not None:
                answer = await server.ask(SaslAuthenticateRequest(data), _AUTHENTICATE_VERSION)
                if answer.error_code:
                    raise self._refused(server.address, answer.error_message or error_name(answer.error_code))
                data = exchange.step(bytes(answer.auth_bytes))
        except ExchangeError as error:
            raise self._refused(server.address, str(error)) from None
        return float(answer.session_lifetime_ms) / 1000

    def _refused(self, address: Address, reason: str) -> RefusedError:
        who = f"of {self._security.user} " if self._security.user else ""
        return RefusedError(
            f"the server at {address} refuses the login {who}with {self._security.mechanism}: {reason}",
            ErrorCode.SASL_AUTHENTICATION_FAILED,
        )

    def _new_exchange(self) -> ClientExchange:
        """Returns the exchange of a new connection. Raises OSError if the bearer token cannot be read."""
        security = self._security
        if security.mechanism == OAUTHBEARER:
            assert security.bearer_path is not None, "the settings require a file with the token"
            return BearerClient(self._files.read(security.bearer_path).decode("ascii", "replace").strip())
        password = security.password.reveal()
        if security.mechanism == PLAIN:
            return PlainClient(security.user, password)
        nonce = self._chance.secret(24).hex()
        assert security.mechanism is not None, "the caller checks it"
        return ScramClient(security.mechanism, security.user, password, nonce, is_token=security.is_token)


class SessionConnection:
    """A connection whose login ends after a time. `ServerConnection` renews the login between two requests."""

    def __init__(self, connection: Connection, log_in: Callable[[], Awaitable[float]], seconds: float) -> None:
        """`log_in` logs in again, and returns for how many seconds. The login now lasts for `seconds`."""
        self._connection = connection
        self._log_in = log_in
        self._renew_at = self._renewal_after(seconds)

    async def renew_login(self) -> None:
        """Logs in again if the login ends soon. Raises OSError, RefusedError and UnreachableError."""
        if trio.current_time() < self._renew_at:
            return
        with trio.move_on_after(LOGIN_SECONDS_MAX):
            self._renew_at = self._renewal_after(await self._log_in())
            return
        raise OSError(f"it has not finished the login within {LOGIN_SECONDS_MAX:g} s")

    def _renewal_after(self, seconds: float) -> float:
        """Returns when to log in again. A server takes no second login within a second."""
        now = trio.current_time()
        return now + max(RENEWAL_SECONDS_MIN, RENEWED_PART * seconds) if seconds else inf

    @property
    def local(self) -> Address:
        return self._connection.local

    @property
    def remote(self) -> Address:
        return self._connection.remote

    def receive_into(self, buffer: memoryview) -> int | None:
        return self._connection.receive_into(buffer)

    async def wait_readable(self) -> None:
        await self._connection.wait_readable()

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        return self._connection.send(parts, more=more)

    async def wait_writable(self) -> None:
        await self._connection.wait_writable()

    async def call_when_readable(
        self, on_readable: Callable[[], bool], turn_ended: Callable[[], None] | None = None
    ) -> None:
        await self._connection.call_when_readable(on_readable, turn_ended)

    def expect_soon(self) -> None:
        self._connection.expect_soon()

    def send_file(self, file: File, position: int, count: int) -> int:
        return self._connection.send_file(file, position, count)

    def end_sending(self) -> None:
        self._connection.end_sending()

    def close(self) -> None:
        self._connection.close()


def tls_context(security: ClientSecurity) -> ssl.SSLContext:
    """Returns the library's settings of TLS. Raises OSError (`ssl.SSLError`)."""
    try:
        context = client_context(security.trusted)
    except OSError as error:
        raise OSError(f"there are no certificates of authorities to trust: {error}") from error
    context.check_hostname = security.checks_names
    if security.certificate is not None:
        load_certificate(context, security.certificate.reveal().encode(), security.key_password.reveal())
    return context

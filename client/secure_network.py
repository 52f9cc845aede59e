"""A network whose connections are encrypted and logged in before anything uses them, as a client's settings say.

It takes the place of the network in any code that connects to servers, so that this code knows nothing of security.
"""

import ssl
from collections.abc import Mapping

import trio

from tailrace.protocol.apis import Api, ApiKey, table_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tailrace.runtime.chance import Chance
from tailrace.runtime.files import Files
from tailrace.runtime.network import Address, Connection, Listener, Network
from tailrace.runtime.tls.certificate_loading import load_certificate
from tailrace.runtime.tls.tls_connection import shaken_by_client
from tailrace.security.sasl.client_exchange import BearerClient, ClientExchange, ExchangeError, PlainClient, ScramClient

from .client_security import OAUTHBEARER, PLAIN, ClientSecurity
from .server_connection import RefusedError, Role, ServerConnection, error_name

LOGIN_SECONDS_MAX = 10.0
"""How long a handshake and a login may take together."""
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
                    await self._log_in(ServerConnection(connection, address, _SERVER, LOGIN_APIS))
        except trio.TooSlowError:
            connection.close()
            raise OSError(f"it has not finished the login within {LOGIN_SECONDS_MAX:g} s") from None
        except BaseException:
            connection.close()
            raise
        return connection

    async def _log_in(self, server: ServerConnection) -> None:
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


def tls_context(security: ClientSecurity) -> ssl.SSLContext:
    """Returns the library's settings of TLS. Raises OSError (`ssl.SSLError`)."""
    context = ssl.create_default_context(cadata=security.trusted)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.checks_names
    if security.certificate is not None:
        load_certificate(context, security.certificate.reveal().encode(), security.key_password.reveal())
    return context

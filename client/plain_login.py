"""Logs in to a broker with SASL/PLAIN, if the broker asks for it: a user, and an access key as the password.

The access key leaves this process only after the broker has said that it takes PLAIN. Listeners without SASL ask for no
key, although they list the API.
"""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.protocol.apis import Api, ApiKey, table_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest

from .server_connection import RefusedError, ServerConnection, error_name

MECHANISM = "PLAIN"
_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 1
_NEVER = 1 << 15


def _api(key: ApiKey, version: int) -> Api:
    return Api(key, version, version, _NEVER, version, _NEVER)


LOGIN_APIS: Mapping[int, Api] = table_of(
    _api(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION), _api(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION)
)
"""The APIs of a login, in the versions that are used."""


class Credentials(Struct, frozen=True):
    """What a broker is told about the client."""

    user: str
    access_key: str

    def __repr__(self) -> str:
        return f"<Credentials of {self.user}>"


async def log_in(connection: ServerConnection, credentials: Credentials, seconds_max: float) -> bool:
    """Logs in on a new connection. Returns False if the broker asks for no credentials.

    Raises UnreachableError, and RefusedError if the broker does not accept them.
    """
    where = f"the broker at {connection.address}"
    answer = await connection.ask(SaslHandshakeRequest(MECHANISM), _HANDSHAKE_VERSION, silence_seconds=seconds_max)
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return False
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise RefusedError(
            f"{where} takes no access key with SASL/{MECHANISM}; its mechanisms are: {offered}", answer.error_code
        )
    if answer.error_code:
        raise RefusedError(f"{where} refuses to log in: {error_name(answer.error_code)}", answer.error_code)
    token = f"\0{credentials.user}\0{credentials.access_key}".encode()
    answer = await connection.ask(SaslAuthenticateRequest(token), _AUTHENTICATE_VERSION, silence_seconds=seconds_max)
    if answer.error_code:
        why = answer.error_message or error_name(answer.error_code)
        raise RefusedError(
            f"{where} does not accept the access key of the user {credentials.user}: {why}", answer.error_code
        )
    return True

"""SaslAuthenticate, versions 0–2: carries the bytes of the mechanism that the client has chosen with SaslHandshake.

From version 1 on, the response says how long the session lasts, and the client may log in again before it ends. A
listener without SASL answers ILLEGAL_SASL_STATE.
"""

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tailrace.server.host import Host
from tailrace.server.request_context import Reply, RequestContext

_NO_SASL = "This listener does not use SASL, or the client has logged in already"


def handle(host: Host, context: RequestContext, request: SaslAuthenticateRequest) -> Reply:
    login = context.client.login
    if login is None:
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, _NO_SASL)
    return login.authenticate(context, request)

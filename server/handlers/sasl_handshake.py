"""SaslHandshake, versions 0–1: the client chooses the mechanism with which it logs in.

After version 0, the bytes of the mechanism come without headers of requests. A listener without SASL answers
ILLEGAL_SASL_STATE, as does one whose client has just logged in.
"""

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tailrace.server.host import Host
from tailrace.server.request_context import Reply, RequestContext


def handle(host: Host, context: RequestContext, request: SaslHandshakeRequest) -> Reply:
    login = context.client.login
    if login is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
    return login.shake(context, request)

from hosts import ControllerHost, request_of

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tailrace.server.handlers.sasl_handshake import handle


def test_a_listener_without_sasl_has_no_mechanisms() -> None:
    """`server/authentication/test_login.py` has the listeners with SASL."""
    response = handle(ControllerHost(), request_of(ApiKey.SASL_HANDSHAKE), SaslHandshakeRequest("PLAIN"))
    assert response == SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)

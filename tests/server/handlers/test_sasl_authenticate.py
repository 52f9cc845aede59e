from hosts import ControllerHost, request_of

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tailrace.server.handlers.sasl_authenticate import handle


def test_a_listener_without_sasl_takes_no_tokens() -> None:
    """`server/authentication/test_login.py` has the listeners with SASL."""
    response = handle(ControllerHost(), request_of(ApiKey.SASL_AUTHENTICATE), SaslAuthenticateRequest(b"x"))
    assert isinstance(response, SaslAuthenticateResponse)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE

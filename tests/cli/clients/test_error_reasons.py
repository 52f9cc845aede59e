from tailrace.cli.clients.error_reasons import reason_of
from tailrace.cli.clients.server_connection import RefusedError
from tailrace.protocol.error_codes import ErrorCode


def test_an_error_that_comes_as_a_code_is_put_into_words() -> None:
    assert reason_of(RefusedError("NON_EMPTY_GROUP", ErrorCode.NON_EMPTY_GROUP)) == "the group has members"
    assert reason_of(RefusedError("it said more", ErrorCode.NON_EMPTY_GROUP)) == "it said more"
    assert reason_of(RefusedError("INVALID_REQUEST", ErrorCode.INVALID_REQUEST)) == "INVALID_REQUEST"
    assert reason_of(RefusedError("error 9999", 9999)) == "error 9999"

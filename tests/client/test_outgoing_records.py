from tailrace.client.outgoing_records import RecordRefusedError, Sending
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.protocol.error_codes import ErrorCode


def test_a_call_ends_with_the_result_of_its_last_record() -> None:
    sending = Sending()
    sending.left += 2
    sending.on_appended()
    sending.on_appended()
    assert not sending.ended.is_set(), "not all records are in a line"
    sending.on_appended()
    assert sending.ended.is_set()
    assert sending.error is None


def test_the_first_error_is_kept_and_a_refusal_names_its_record() -> None:
    sending = Sending()
    sending.left += 1
    sending.on_refused(7, RefusedError("it is too large", ErrorCode.MESSAGE_TOO_LARGE))
    sending.fail(8, UnreachableError("nobody answers"))
    assert isinstance(sending.error, RecordRefusedError)
    assert (str(sending.error), sending.error.code, sending.error.number) == (
        "it is too large",
        ErrorCode.MESSAGE_TOO_LARGE,
        7,
    )
    assert sending.left == 1


def test_an_unreachable_leader_is_no_fault_of_a_record() -> None:
    sending, error = Sending(), UnreachableError("the leader is away")
    sending.fail(0, error)
    assert sending.error is error

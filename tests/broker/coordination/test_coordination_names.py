"""Tests of the errors that clients of coordinators get."""

from tailrace.broker.coordination.coordination_names import CoordinationNames
from tailrace.protocol.error_codes import ErrorCode


def test_errors_name_what_the_client_asked_about() -> None:
    names = CoordinationNames("__books", "book", "books")
    errors = (names.not_coordinator(), names.loading(), names.not_loaded("it burns"), names.not_committed())
    assert [(error.code, error.message) for error in errors] == [
        (ErrorCode.NOT_COORDINATOR, "this SPU is not the coordinator of the book"),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the books are being loaded"),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "the books could not be loaded: it burns"),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "the followers of __books did not keep up"),
    ]

import warnings

import pytest

from tailrace.protocol.codec.decoder_source import STRING_BYTES_MAX
from tailrace.protocol.error_codes import ErrorCode, KafkaError, known_code

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import errors as their_errors


def test_every_code_that_kafka_python_knows_is_named() -> None:
    codes = {
        error.errno
        for error in vars(their_errors).values()
        if isinstance(error, type) and isinstance(getattr(error, "errno", None), int)
    }
    assert len(codes) > 100
    assert codes <= {code.value for code in ErrorCode}


def test_codes_have_no_gap() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_an_unknown_code_is_an_unknown_error() -> None:
    assert known_code(133) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert known_code(134) is known_code(-1) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_has_its_code_and_reason() -> None:
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "no such key")) == "INVALID_CONFIG: no such key"
    assert str(KafkaError(ErrorCode.NOT_COORDINATOR)) == "NOT_COORDINATOR"


@pytest.mark.parametrize("character", ["g", "\N{GRINNING FACE}"])
def test_a_message_fits_into_a_string_of_the_protocol_however_long_the_names_in_it_are(character: str) -> None:
    message = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {character * STRING_BYTES_MAX}").message
    assert message.startswith(f"there is no group {character}")
    assert len(message.encode()) <= STRING_BYTES_MAX

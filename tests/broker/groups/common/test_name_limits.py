import pytest

from tailrace.broker.groups.common.name_limits import NAME_BYTES_MAX, check_names
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def test_names_that_a_record_can_hold_are_taken() -> None:
    check_names(("g" * NAME_BYTES_MAX, "é" * (NAME_BYTES_MAX // 2), "", None))


@pytest.mark.parametrize("name", ["g" * (NAME_BYTES_MAX + 1), "é" * (NAME_BYTES_MAX // 2 + 1)])
def test_a_name_that_no_record_holds_is_refused(name: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_names(("short", name))
    assert refused.value.code == ErrorCode.INVALID_REQUEST

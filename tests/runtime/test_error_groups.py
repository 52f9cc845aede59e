"""The first error is found inside any number of groups."""

from tailrace.runtime.error_groups import first_error


def test_the_first_error_is_found_below_any_number_of_groups() -> None:
    first, second = ValueError("first"), OSError("second")
    inner = BaseExceptionGroup("inner", [first, second])
    assert first_error(inner) is first
    assert first_error(BaseExceptionGroup("outer", [BaseExceptionGroup("middle", [inner]), second])) is first

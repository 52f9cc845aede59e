"""The one rule that the interface itself keeps: a value that some store would refuse is refused by all."""

import pytest

from tailrace.controller.key_value.interface import NO_VERSION, VALUE_BYTES_MAX, Delete, Put, check_sizes


def test_values_have_a_largest_size() -> None:
    check_sizes([Put("a", bytes(VALUE_BYTES_MAX), NO_VERSION), Delete("b", 1)])
    with pytest.raises(ValueError, match="the value of c has 1048577 bytes, more than 1048576"):
        check_sizes([Delete("b", 1), Put("c", bytes(VALUE_BYTES_MAX + 1), NO_VERSION)])

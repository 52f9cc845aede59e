"""Which configs a log refuses."""

import pytest

from tailrace.storage.log_config import LogConfig


def test_a_segment_is_no_larger_than_its_index_can_say() -> None:
    LogConfig(segment_bytes_max=2**32 - 1)
    with pytest.raises(AssertionError):
        LogConfig(segment_bytes_max=2**32)

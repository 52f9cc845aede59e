import os

import pytest

from tailrace.runtime.workers.shared_page import CONTENT_BYTES, SharedPage


def test_two_views_of_a_page_show_the_same_slots() -> None:
    page = SharedPage()
    other = SharedPage(os.dup(page.descriptor))
    page.numbers[3] = -(2**62)
    page.times[0] = float("inf")
    assert (other.numbers[3], other.times[0]) == (-(2**62), float("inf"))
    assert (other.numbers[0], other.times[255]) == (0, 0.0)
    page.content[:3] = b"abc"
    assert (bytes(other.content[:4]), len(other.content)) == (b"abc\0", CONTENT_BYTES)
    page.close()
    other.times[0] = 1.5
    assert other.times[0] == 1.5
    other.close()
    with pytest.raises(OSError):
        os.fstat(other.descriptor)

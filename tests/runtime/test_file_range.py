"""A range of a file."""

import pytest
from simulation.files import SimulatedFiles

from tailrace.runtime.file_range import FileRange


def test_a_range_reads_its_bytes_and_no_others() -> None:
    file = SimulatedFiles().open("/a", create=True)
    file.append(b"0123456789")
    assert FileRange(file, 2, 3).read() == b"234"
    assert len(FileRange(file, 2, 3)) == 3
    assert not FileRange(file, 2, 0)


def test_a_file_that_became_shorter_is_an_error_and_not_fewer_bytes() -> None:
    file = SimulatedFiles().open("/a", create=True)
    file.append(b"0123456789")
    found = FileRange(file, 2, 8)
    file.truncate(9)
    with pytest.raises(OSError):
        found.read()

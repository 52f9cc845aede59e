import os

import pytest

from tailrace.runtime.workers.shared_page import SharedPage
from tailrace.runtime.workers.worker_side import EndOfWorkError, WorkerSide


class Pipes:
    """Both ends of the pipes of a worker side that lives in this process."""

    def __init__(self) -> None:
        its_input, self.to_worker = os.pipe()
        self.from_worker, its_output = os.pipe()
        self.claims = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK)
        page = SharedPage()
        self.side = WorkerSide(f"{its_input},{its_output},{self.claims},{page.descriptor}")


def test_bytes_are_read_in_the_pieces_that_are_asked_for() -> None:
    pipes = Pipes()
    os.write(pipes.to_worker, b"abcdef")
    assert pipes.side.read(2) == b"ab"
    assert pipes.side.has(4)
    assert not pipes.side.has(5)
    os.write(pipes.to_worker, b"g")
    assert pipes.side.read(5) == b"cdefg"
    assert not pipes.side.input_ended(0)
    os.close(pipes.to_worker)
    assert pipes.side.input_ended(10)
    with pytest.raises(EndOfWorkError):
        pipes.side.read(1)


def test_a_pipe_without_a_reader_is_the_end_of_work() -> None:
    pipes = Pipes()
    pipes.side.write([b"ab", b"", b"c"])
    assert os.read(pipes.from_worker, 9) == b"abc"
    os.close(pipes.from_worker)
    with pytest.raises(EndOfWorkError):
        pipes.side.write([b"x"])


def test_each_grant_can_be_claimed_once() -> None:
    pipes = Pipes()
    assert not pipes.side.claim()
    os.eventfd_write(pipes.claims, 2)
    assert [pipes.side.claim() for _ in range(3)] == [True, True, False]


def test_programs_that_a_handler_starts_get_no_descriptor() -> None:
    assert not os.get_inheritable(Pipes().side.input)

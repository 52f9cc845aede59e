"""The shares of the descriptors, and retries when they run out."""

import errno

import pytest
import trio

from tailrace.runtime.descriptors import (
    UNBOUNDED,
    controller_clients_max,
    log_files_max,
    retry_when_out_of_files,
    spu_clients_max,
)


@pytest.mark.parametrize("descriptors_max", [1, 10, 256, 1024, 20_000, 1_048_576])
def test_all_shares_together_leave_some(descriptors_max: int) -> None:
    shares = [share(descriptors_max) for share in (spu_clients_max, controller_clients_max, log_files_max)]
    assert min(shares) >= 1
    assert descriptors_max < 10 or sum(shares) <= descriptors_max * 7 / 8


def test_without_a_limit_nothing_is_shared_out() -> None:
    assert spu_clients_max(None) == controller_clients_max(None) == log_files_max(None) == UNBOUNDED


async def test_only_work_that_ran_out_of_files_is_retried(autojump_clock: object) -> None:
    errors = [errno.EMFILE, errno.ENFILE, None, errno.EIO]

    async def work() -> str:
        await trio.lowlevel.checkpoint()
        number = errors.pop(0)
        if number is not None:
            raise OSError(number, "it cannot be opened")
        return "done"

    assert await retry_when_out_of_files(work) == "done"
    with pytest.raises(OSError, match="opened"):
        await retry_when_out_of_files(work)
    assert errors == []


async def test_retries_end(autojump_clock: object) -> None:
    async def work() -> None:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EMFILE, "too many open files")

    with trio.fail_after(60), pytest.raises(OSError, match="too many"):
        await retry_when_out_of_files(work)

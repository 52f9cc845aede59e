"""Shares of the open files."""

import pytest

from tailrace.runtime.descriptors import UNBOUNDED, clients_of_a_controller, clients_of_an_spu, files_of_logs


@pytest.mark.parametrize("descriptors_max", [1, 10, 256, 1024, 20_000, 1_048_576])
def test_all_shares_together_leave_some(descriptors_max: int) -> None:
    shares = [share(descriptors_max) for share in (clients_of_an_spu, clients_of_a_controller, files_of_logs)]
    assert min(shares) >= 1
    assert descriptors_max < 10 or sum(shares) <= descriptors_max * 7 / 8


def test_who_may_open_as_many_as_he_likes_shares_nothing_out() -> None:
    assert clients_of_an_spu(None) == clients_of_a_controller(None) == files_of_logs(None) == UNBOUNDED

from tailrace.broker.replication.epoch_starts import EpochStart, common_end
from tailrace.protocol.ids import Epoch


def _epochs(*starts: tuple[int, int]) -> list[EpochStart]:
    return [EpochStart(Epoch(epoch), start) for epoch, start in starts]


def test_one_log_is_the_beginning_of_the_other() -> None:
    assert common_end(_epochs((1, 0), (2, 5)), 8, _epochs((1, 0), (2, 5), (4, 9)), 12) == 8


def test_they_part_where_the_last_common_epoch_ends_in_one_of_them() -> None:
    assert common_end(_epochs((1, 0), (2, 5), (3, 7)), 9, _epochs((1, 0), (2, 5), (4, 8)), 12) == 7
    assert common_end(_epochs((1, 0), (3, 7)), 9, _epochs((1, 0), (2, 5)), 12) == 5


def test_no_epoch_in_common_is_nothing_in_common() -> None:
    assert common_end(_epochs((3, 0)), 9, _epochs((1, 0), (2, 5)), 12) == 0
    assert common_end([], 0, _epochs((1, 0)), 12) == 0
    assert common_end(_epochs((1, 0)), 12, [], 0) == 0

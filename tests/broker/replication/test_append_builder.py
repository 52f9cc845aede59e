from collections.abc import Iterator

from replication_store import ListLog

from tailrace.broker.replication.append_builder import AppendBuilder
from tailrace.broker.replication.entries import Entry
from tailrace.broker.replication.epoch_starts import EpochStart
from tailrace.broker.replication.high_watermark import HighWatermark
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId

LIVE = frozenset({SpuId(1)})


def _log(*ends: tuple[int, int]) -> ListLog:
    log = ListLog()
    for base, end in ends:
        log.append(Entry(base, end, Epoch(1), content=base, size=10))
    return log


def _next(log: ListLog, base: int, *, bytes_max: int = 25) -> tuple[int, list[int]]:
    append = AppendBuilder(Epoch(2), log, bytes_max).append_from(base, log.log_end, HighWatermark(0), LIVE)
    return append.base, [entry.base for entry in append.entries]


def test_one_message_takes_so_many_bytes_but_one_entry_in_any_case() -> None:
    log = _log((0, 1), (1, 2), (2, 3))
    assert _next(log, 0) == (0, [0, 1])
    assert _next(log, 1) == (1, [1, 2])
    assert _next(log, 0, bytes_max=1) == (0, [0])
    assert _next(log, 3) == (3, [])


def test_an_entry_whose_end_the_next_one_does_not_confirm_is_not_sent_last() -> None:
    log = _log((0, 1), (1, 2), (2, 3), (3, 4), (4, 6))
    log.all[1] = Entry(5, 6, Epoch(1), content=1, size=10)  # as the disk has it now
    assert _next(log, 0) == (0, [0, 5, 2])


class _UnreadableLog(ListLog):
    def entries(self, start: int, end: int) -> Iterator[Entry]:
        for entry in super().entries(start, end):
            if entry.base == 2:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a header that makes no sense")
            yield entry


def test_nothing_behind_an_unreadable_header_is_sent() -> None:
    log = _UnreadableLog()
    for base in range(4):
        log.append(Entry(base, base + 1, Epoch(1), content=base, size=1))
    assert _next(log, 0) == (0, [0])
    assert _next(log, 1) == (1, [])


def test_deleted_entries_are_left_out_and_the_batch_with_the_log_start_is_whole() -> None:
    log = _log((0, 2), (2, 5), (5, 6))
    log.advance_log_start(3)
    assert _next(log, 0) == (2, [2, 5])
    log.advance_log_start(6)
    assert _next(log, 0) == (6, [])


def test_compacted_entries_are_left_out() -> None:
    assert _next(_log((0, 1), (4, 5)), 1) == (1, [4])


def test_followers_at_the_same_offset_are_sent_the_same_message() -> None:
    log = _log((0, 1))
    appends = AppendBuilder(Epoch(2), log, 25)
    first = appends.append_from(0, log.log_end, HighWatermark(0), LIVE)
    assert appends.append_from(0, log.log_end, HighWatermark(0), LIVE) is first
    assert appends.append_from(0, log.log_end, HighWatermark(1), LIVE) is not first
    log.append(Entry(1, 2, Epoch(2)))
    assert len(appends.append_from(0, log.log_end, HighWatermark(1), LIVE).entries) == 2


def test_a_changed_log_is_looked_up_again() -> None:
    log = _log((0, 1), (1, 2))
    appends = AppendBuilder(Epoch(2), log, 25)
    assert appends.append_from(0, log.log_end, HighWatermark(2), LIVE).log_start == 0
    log.advance_log_start(1)
    appends.invalidate()
    again = appends.append_from(0, log.log_end, HighWatermark(2), LIVE)
    assert (again.log_start, [entry.base for entry in again.entries]) == (1, [1])


def test_epoch_starts_are_sent_with_entries_that_recovery_has_stamped() -> None:
    log = _log((0, 1), (1, 2), (2, 3))
    log.expect_stamped(5, Epoch(3), [EpochStart(Epoch(2), 4)])
    for base in (3, 4, 5):
        log.append(Entry(base, base + 1, Epoch(3)))
    assert log.epochs == [(1, 0), (2, 4), (3, 5)]
    appends = AppendBuilder(Epoch(4), log, 25)
    append = appends.append_from(1, log.log_end, HighWatermark(0), LIVE)
    assert (append.stamped_end, append.epochs) == (5, ((1, 1), (2, 4)))
    assert appends.append_from(5, log.log_end, HighWatermark(0), LIVE).epochs == ()


def test_a_sign_of_life_says_how_far_the_leader_is() -> None:
    append = AppendBuilder(Epoch(2), _log((0, 1)), 25).sign_of_life(0, HighWatermark(1), LIVE)
    assert (append.base, append.entries, append.log_end, append.high_watermark) == (0, (), 1, 1)


def test_a_follower_that_lags_far_is_sent_all_committed_epoch_starts() -> None:
    """The follower may copy the rest from another follower, where entries have other stamps."""
    log = _log((0, 1), (1, 2), (2, 3), (3, 4))
    appends = AppendBuilder(Epoch(2), log, 25)
    append = appends.append_from(0, 4, HighWatermark(3), LIVE)
    assert (append.stamped_end, append.epochs) == (3, (EpochStart(Epoch(1), 0),))
    assert appends.append_from(2, 4, HighWatermark(3), LIVE).stamped_end == 0, "that is the rest"
    assert appends.append_from(0, 4, HighWatermark(2), LIVE).stamped_end == 0, "nothing more is committed"

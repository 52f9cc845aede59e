"""What a history of one partition may contain, and what it must not contain."""

import pytest
from simulation.history import UNKNOWN_OFFSET, HistoryError, PartitionHistory, Read, Sent


def _history(*values: bytes, is_idempotent: bool = True) -> PartitionHistory:
    history = PartitionHistory(0)
    for number, value in enumerate(values):
        history.on_sent(value, Sent("p", number, is_idempotent))
    return history


def test_acknowledged_records_are_at_their_offsets() -> None:
    history = _history(b"a", b"b")
    history.on_acknowledged(b"a", 0)
    history.on_acknowledged(b"b", UNKNOWN_OFFSET)
    history.check_final([Read(0, b"a"), Read(3, b"b")])
    for log in ([], [Read(0, b"a")], [Read(1, b"a"), Read(2, b"b")]):
        with pytest.raises(HistoryError):
            history.check_final(log)


def test_a_record_is_acknowledged_at_one_offset() -> None:
    history = _history(b"a", b"b")
    history.on_acknowledged(b"a", 4)
    history.on_acknowledged(b"a", UNKNOWN_OFFSET)
    with pytest.raises(HistoryError, match="acknowledged at 4, and then at 5"):
        history.on_acknowledged(b"a", 5)
    with pytest.raises(HistoryError, match="where b'a' was committed"):
        history.on_acknowledged(b"b", 4)


def test_readers_see_one_log_without_phantoms_or_gaps() -> None:
    history = _history(b"a", b"b", b"c")
    history.on_read("one", [Read(0, b"a"), Read(2, b"b")])
    with pytest.raises(HistoryError, match="nobody sent"):
        history.on_read("one", [Read(3, b"x")])
    with pytest.raises(HistoryError, match="read offset 2 after 2"):
        history.on_read("one", [Read(2, b"b")])
    with pytest.raises(HistoryError, match="was read by two at offset 2"):
        history.on_read("two", [Read(2, b"c")])
    given_too_little = [Read(0, b"a"), Read(1, b"c"), Read(2, b"b")]
    with pytest.raises(HistoryError, match="follows record 0"):
        history.check_final(given_too_little)


def test_a_reader_skips_nothing() -> None:
    history = _history(b"a", b"b", b"c")
    history.on_read("one", [Read(0, b"a"), Read(3, b"c")])
    with pytest.raises(HistoryError, match=r"one was not given \[1\]"):
        history.check_final([Read(0, b"a"), Read(1, b"b"), Read(3, b"c")])


def test_a_later_reader_gets_everything_from_its_start() -> None:
    history = _history(b"a", b"b", b"c")
    log = [Read(0, b"a"), Read(1, b"b"), Read(3, b"c")]
    history.on_started("one", 1)
    with pytest.raises(HistoryError, match="read offset 0 after 0"):
        history.on_read("one", log[:1])
    history.on_read("one", log[1:])
    history.check_final(log)
    history.on_started("two", 1)
    history.on_read("two", log[2:])
    with pytest.raises(HistoryError, match=r"two was not given \[1\]"):
        history.check_final(log)


def test_records_of_a_producer_are_in_order_and_of_an_idempotent_one_unique() -> None:
    again = [Read(0, b"a"), Read(1, b"b"), Read(2, b"a")]
    _history(b"a", b"b", is_idempotent=False).check_final(again)
    with pytest.raises(HistoryError, match="is there again"):
        _history(b"a", b"b").check_final(again)
    with pytest.raises(HistoryError, match="follows record"):
        _history(b"a", b"b").check_final([Read(0, b"b"), Read(1, b"a")])
    with pytest.raises(HistoryError, match="follows record"):
        _history(b"a", b"b", b"c").check_final([Read(0, b"a"), Read(1, b"c")])


def test_records_deleted_during_a_read_may_be_missing_in_its_middle() -> None:
    def history(deleted_end: int) -> PartitionHistory:
        made = _history(b"a", b"b", b"c", b"d")
        made.on_deleting(deleted_end)
        return made

    history(2).check_final([Read(0, b"a"), Read(2, b"c"), Read(3, b"d")])
    with pytest.raises(HistoryError, match="record 3 of p at 3 follows record 1"):
        history(1).check_final([Read(0, b"a"), Read(1, b"b"), Read(3, b"d")])


def test_log_ends_and_high_watermarks_do_not_fall() -> None:
    history = _history()
    history.on_high_watermark("one", 1, 5)
    history.on_high_watermark("one", 2, 4)  # the next leader may know less
    history.on_high_watermark("two", 1, 3)
    with pytest.raises(HistoryError):
        history.on_high_watermark("one", 1, 4)
    history.on_log_end("one", 1, 5)
    with pytest.raises(HistoryError):
        history.on_log_end("one", 1, 4)
    with pytest.raises(HistoryError, match="truncation"):
        history.on_truncation("one", "epoch 1 ended at 3")


def test_log_ends_from_before_an_unclean_election_are_ignored() -> None:
    history = _history()
    history.on_log_end("one", 1, 5)
    history.on_unclean_election(2)
    history.on_log_end("one", 1, 7)  # this leader does not know yet that another one was elected
    history.on_log_end("one", 2, 3)
    with pytest.raises(HistoryError):
        history.on_log_end("one", 2, 2)


def test_superseded_records_may_be_missing() -> None:
    def history() -> PartitionHistory:
        made = PartitionHistory(0)
        for number, (key, value) in enumerate([(b"k", b"a"), (b"l", b"b"), (b"k", b"c")]):
            made.on_sent(value, Sent("p", number, True, key))
            made.on_acknowledged(value, number)
        return made

    history().check_final([Read(1, b"b"), Read(2, b"c")])
    for log in ([Read(2, b"c")], [Read(0, b"a"), Read(1, b"b")]):
        with pytest.raises(HistoryError, match="in the end there is None"):
            history().check_final(log)
    with pytest.raises(HistoryError, match="in the end there is"):
        history().check_final([Read(0, b"c"), Read(1, b"b")])


def test_only_records_that_a_client_deleted_may_be_missing() -> None:
    def history() -> PartitionHistory:
        made = _history(b"a", b"b", b"c")
        made.on_read("one", [Read(0, b"a"), Read(1, b"b")])
        for offset, value in enumerate([b"a", b"b", b"c"]):
            made.on_acknowledged(value, offset)
        made.on_deleting(1)
        return made

    assert history().known_end == 3
    history().check_final([Read(1, b"b"), Read(2, b"c")])
    history().check_final([Read(0, b"a"), Read(1, b"b"), Read(2, b"c")])
    with pytest.raises(HistoryError, match="b'b' was at offset 1; in the end there is None"):
        history().check_final([Read(2, b"c")])


def test_a_reader_may_miss_superseded_records() -> None:
    history = PartitionHistory(0)
    log = [Read(0, b"a"), Read(1, b"b"), Read(2, b"c")]
    for number, (key, each) in enumerate(zip((b"k", b"l", b"k"), log, strict=True)):
        history.on_sent(each.value, Sent("p", number, True, key))
    history.on_read("one", log[1:])
    history.check_final(log)  # another replica may be compacted less
    history.on_read("two", [log[0], log[2]])
    with pytest.raises(HistoryError, match=r"two was not given \[1\]"):
        history.check_final(log)


def test_an_epoch_ends_at_the_next_bridge_at_the_latest() -> None:
    history = _history()
    history.on_bridge("one", 3, 10)
    history.on_epoch_end("two", leader_epoch=4, epoch=2, end=10, log_start=0)
    history.on_epoch_end("two", leader_epoch=2, epoch=2, end=15, log_start=0)  # that leader knew no bridge
    history.on_epoch_end("two", leader_epoch=4, epoch=3, end=15, log_start=0)
    history.on_epoch_end("two", leader_epoch=4, epoch=2, end=12, log_start=12)
    with pytest.raises(HistoryError, match="epoch 2 ended at 11, but epoch 3 began at 10"):
        history.on_epoch_end("two", leader_epoch=4, epoch=2, end=11, log_start=0)
    with pytest.raises(HistoryError, match="got the bridge of epoch 3 at 11, which was at 10"):
        history.on_bridge("two", 3, 11)
    history.on_unclean_election(5)
    history.on_bridge("one", 3, 12)
    history.on_epoch_end("two", leader_epoch=4, epoch=2, end=11, log_start=0)
    assert not history.bridges

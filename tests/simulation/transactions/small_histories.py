"""Small histories of transactions for the tests of the rules, which begin right and are then made wrong."""

from .transaction_history import (
    Ending,
    FinalLog,
    Marker,
    Outcome,
    Partition,
    Poll,
    Position,
    Producer,
    Reader,
    Record,
    Send,
    SentOffsets,
    Source,
    Stored,
    Transaction,
    TransactionHistory,
)

ONE, TWO = Partition("out", 0), Partition("out", 1)
INPUT = Partition("in", 0)
GROUP = "copiers"


def sent(value: bytes, partition: Partition, offset: int | None, at: float, source: Source | None = None) -> Send:
    """Returns an acknowledged record, or one without a response if the offset is None."""
    if offset is None:
        return Send(partition, value, at, source=source)
    return Send(partition, value, at, Outcome.OK, offset, at + 0.1, source)


def begun(producer: Producer, at: float, *sends: Send) -> Transaction:
    transaction = Transaction(producer, at, sends=list(sends))
    producer.transactions.append(transaction)
    return transaction


def ended(transaction: Transaction, at: float, *, commits: bool, outcome: Outcome = Outcome.OK) -> None:
    transaction.endings.append(Ending(commits, at, outcome, at + 0.1))


class Small:
    """A producer with a committed and an aborted transaction over two partitions, a plain producer, and a reader.

    `out-0` has a (0), b (1), c (2, aborted), a commit (3), an abort (4), p (5); `out-1` has x (0), y (1, aborted), a
    commit (2), an abort (3).
    """

    def __init__(self) -> None:
        self.producer = Producer("p-1", "id", init_ended=0.5, init_is_over=0.5)
        self.aborting = Producer("p-2", "other", init_ended=0.5, init_is_over=0.5)
        self.plain = Producer("plain", sends=[sent(b"p", ONE, 5, 8.0)])
        self.committed = begun(self.producer, 1.0, sent(b"a", ONE, 0, 1.0), sent(b"b", ONE, 1, 2.0))
        self.committed.sends.append(sent(b"x", TWO, 0, 2.5))
        ended(self.committed, 5.0, commits=True)
        self.aborted = begun(self.aborting, 1.0, sent(b"c", ONE, 2, 3.0), sent(b"y", TWO, 1, 3.5))
        ended(self.aborted, 5.5, commits=False)
        self.reader = Reader(
            "reader",
            True,
            [
                Position(ONE, 0),
                Poll(ONE, [], 4.0, 4.1, 3, stable_end=0, high_watermark=3),
                Poll(ONE, [Record(0, b"a"), Record(1, b"b")], 6.0, 6.1, 3, stable_end=5, high_watermark=5),
                Poll(ONE, [Record(5, b"p")], 9.0, 9.1, 3, stable_end=6, high_watermark=6),
            ],
        )
        self.dirty = Reader(
            "dirty",
            False,
            [Poll(ONE, [Record(0, b"a"), Record(1, b"b"), Record(2, b"c")], 4.0, 4.1, high_watermark=3)],
        )
        self.log = FinalLog(
            ONE,
            [Record(0, b"a"), Record(1, b"b"), Record(5, b"p")],
            [Stored(0, b"a", 1, True), Stored(1, b"b", 1, True), Stored(2, b"c", 2, True), Stored(5, b"p", 3)],
            [Marker(3, 1, True), Marker(4, 2, False)],
            log_start=0,
            stable_end=6,
            log_end=6,
        )
        self.other_log = FinalLog(
            TWO,
            [Record(0, b"x")],
            [Stored(0, b"x", 1, True), Stored(1, b"y", 2, True)],
            [Marker(2, 1, True), Marker(3, 2, False)],
            log_start=0,
            stable_end=4,
            log_end=4,
        )
        self.history = TransactionHistory(
            [self.producer, self.aborting, self.plain], [self.reader, self.dirty], [], [self.log, self.other_log]
        )


class Copying:
    """A processor that copies two inputs in two transactions; the first attempt at the second one was aborted."""

    def __init__(self) -> None:
        self.processor = Producer("copier", "copying", init_ended=0.5)
        self.transactions = [
            self._copied(1.0, 0, b"copy of 0", 0),
            self._copied(2.0, 1, b"failed copy of 1", 2),
            self._copied(3.0, 1, b"copy of 1", 4),
        ]
        ended(self.transactions[0], 1.5, commits=True)
        ended(self.transactions[1], 2.5, commits=False)
        ended(self.transactions[2], 3.5, commits=True)
        inputs = [Record(0, b"in 0"), Record(1, b"in 1")]
        self.output = FinalLog(
            ONE,
            [Record(0, b"copy of 0"), Record(4, b"copy of 1")],
            [
                Stored(0, b"copy of 0", 1, True),
                Stored(2, b"failed copy of 1", 1, True),
                Stored(4, b"copy of 1", 1, True),
            ],
            [Marker(1, 1, True), Marker(3, 1, False), Marker(5, 1, True)],
            log_start=0,
            stable_end=6,
            log_end=6,
        )
        self.input = FinalLog(INPUT, inputs, [Stored(*each) for each in inputs], [], 0, 2, 2)
        self.feeder = Producer("feeder", sends=[sent(b"in 0", INPUT, 0, 0.0), sent(b"in 1", INPUT, 1, 0.1)])
        self.history = TransactionHistory([self.processor, self.feeder], final_logs=[self.output, self.input])
        self.history.final_offsets[GROUP, INPUT] = 2

    def _copied(self, at: float, offset: int, value: bytes, output_offset: int) -> Transaction:
        transaction = begun(self.processor, at, sent(value, ONE, output_offset, at, Source(GROUP, INPUT, offset)))
        transaction.offsets.append(SentOffsets(GROUP, {INPUT: offset + 1}, Outcome.OK))
        return transaction

"""Rules for consume-process-produce: each input counts once in the output, and offsets are committed with the outputs.

An output names its input (`Send.source`). A processor reads on from the committed offset, so the offsets that its
transactions commit for a partition rise.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from .kept_records import KeptRecords
from .transaction_history import Anomaly, Fate, Outcome, Partition, Source, Transaction, TransactionHistory

NO_OFFSET = -1

GroupPartition = tuple[str, Partition]


def wrong_output_counts(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields inputs that are not exactly once in the output, and are before the committed offset; and inputs that are
    in the output, but not before the committed offset.

    An acknowledged output of a committed transaction counts even if it was removed from the log. An input that was
    removed may have no output, because the transaction that processed it was aborted before.
    """
    kept = KeptRecords(history)
    visible = {record.value for log in history.final_logs for record in log.committed}
    outputs: Counter[Source] = Counter()
    removed: Counter[Source] = Counter()
    """How many outputs are not there, and may have been committed and removed."""
    known: set[Source] = set()
    for send, _, transaction in history.sends():
        if send.source is not None:
            known.add(send.source)
            fate = Fate.COMMITTED if transaction is None else transaction.fate
            may_be_removed = send.value not in visible and fate is not Fate.ABORTED and kept.has(send) is None
            is_sure = may_be_removed and fate is Fate.COMMITTED and send.outcome is Outcome.OK
            outputs[send.source] += send.value in visible or (is_sure and history.final_log(send.partition) is not None)
            removed[send.source] += may_be_removed and not is_sure
    for source in sorted(known):
        offset = history.final_offsets.get((source.group, source.partition), NO_OFFSET)
        expected = int(source.offset < offset)
        least = 0 if kept.may_lack_input(source.partition, source.offset) else expected
        if not least - removed[source] <= outputs[source] <= expected:
            yield Anomaly(
                "wrong output",
                f"input {source.offset} of {source.partition} is {outputs[source]} times in the output, but "
                f"{source.group} has committed {offset}",
            )


def unprocessed_inputs(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields inputs before the committed offset from which no output was ever sent.

    The leader that the process read from may have compacted an input that another replica still has.
    """
    kept = KeptRecords(history)
    sources: dict[GroupPartition, set[int]] = defaultdict(set)
    for send, _, _ in history.sends():
        if send.source is not None:
            sources[send.source.group, send.source.partition].add(send.source.offset)
    for (group, partition), offset in history.final_offsets.items():
        log = history.final_log(partition)
        if log is None or (group, partition) not in sources:
            continue
        for record in log.committed:
            is_skipped = record.offset < offset and record.offset not in sources[group, partition]
            if is_skipped and not kept.may_lack(partition, record.offset, record.value):
                yield Anomaly(
                    "skipped input",
                    f"{group} has committed {offset} of {partition}, but no output of input {record.offset} was sent",
                )


def wrong_group_offsets(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields final group offsets that are not the largest ones that transactions committed."""
    at_least, possible = _committed_offsets(history)
    for key in sorted(possible.keys() | at_least.keys() | history.final_offsets.keys()):
        offset = history.final_offsets.get(key, NO_OFFSET)
        group, partition = key
        least = at_least.get(key, NO_OFFSET)
        if offset < least:
            yield Anomaly("lost offset", f"{group} has {offset} of {partition}, and had committed {least}")
        elif offset not in (least, *possible.get(key, ())):
            yield Anomaly("wrong offset", f"{group} has {offset} of {partition}, which nobody committed")


def torn_offsets(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields transactions whose outputs are visible, and whose group offsets are not, or the other way round.

    A later transaction may have committed larger offsets, so only outputs without their offsets are certain; and an
    offset that only one transaction sent shows that it was committed.
    """
    kept = KeptRecords(history)
    visible = {record.value for log in history.final_logs for record in log.committed}
    senders: dict[tuple[str, Partition, int], list[Transaction]] = defaultdict(list)
    for transaction in history.transactions():
        for sent in transaction.offsets:
            for partition, offset in sent.offsets.items():
                senders[sent.group, partition, offset].append(transaction)
    for transaction in history.transactions():
        shown = [send.value for send in transaction.sends if send.value in visible]
        hidden = [send.value for send in transaction.sends if send.outcome is Outcome.OK and kept.has(send) is False]
        for sent in transaction.offsets if all(history.final_log(each.partition) for each in transaction.sends) else ():
            for partition, offset in sent.offsets.items():
                final = history.final_offsets.get((sent.group, partition), NO_OFFSET)
                if shown and sent.outcome is Outcome.OK and final < offset:
                    yield Anomaly(
                        "torn transaction", f"{shown[0]!r} of {transaction} is there, but {sent.group} has only {final}"
                    )
                if hidden and final == offset and senders[sent.group, partition, offset] == [transaction]:
                    yield Anomaly(
                        "torn transaction", f"{sent.group} has {offset} by {transaction}, but {hidden[0]!r} is missing"
                    )


def wrong_offset_reads(history: TransactionHistory) -> Iterator[Anomaly]:
    """Yields reads of a group's offset that miss what was committed before, or show what nobody had asked to commit."""
    for read in history.offset_reads:
        least, most = NO_OFFSET, NO_OFFSET
        for transaction in history.transactions():
            offsets = [
                sent.offsets[read.partition]
                for sent in transaction.offsets
                if sent.group == read.group and read.partition in sent.offsets and sent.outcome is not Outcome.FAILED
            ]
            acknowledged = min(
                (each.ended for each in transaction.endings if each.is_commit and each.outcome is Outcome.OK),
                default=None,
            )
            if offsets and acknowledged is not None and acknowledged < read.began:
                least = max(least, *offsets)
            if offsets and transaction.fate is not Fate.ABORTED and transaction.commit_began < read.ended:
                most = max(most, *offsets)
        if not least <= read.offset <= max(least, most):
            yield Anomaly(
                "wrong offset read",
                f"{read.group} had {read.offset} of {read.partition} at {read.ended:.3f} s, but at least {least} and "
                f"at most {max(least, most)} were committed",
            )


def _committed_offsets(
    history: TransactionHistory,
) -> tuple[dict[GroupPartition, int], dict[GroupPartition, set[int]]]:
    """Returns the largest offset that was certainly committed for each group and partition, and all larger ones that
    may have been."""
    at_least: dict[GroupPartition, int] = {}
    may: dict[GroupPartition, set[int]] = defaultdict(set)
    for transaction in history.transactions():
        for sent in transaction.offsets:
            for partition, offset in sent.offsets.items():
                key = sent.group, partition
                if transaction.fate is Fate.COMMITTED and sent.outcome is Outcome.OK:
                    at_least[key] = max(offset, at_least.get(key, NO_OFFSET))
                elif transaction.fate is not Fate.ABORTED and sent.outcome is not Outcome.FAILED:
                    may[key].add(offset)
    return at_least, may

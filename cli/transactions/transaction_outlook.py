"""Says in sentences what happens next to a transaction, from what its coordinator and the leaders know."""

from collections.abc import Mapping, Sequence

from tailrace.cli.output.printing import duration_text, time_text
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.transaction_facts import PREPARE_COMMIT, Holder, Transaction

PARTITIONS_NAMED_MAX = 10
Leaders = Mapping[Partition, int | RefusedError]
_PAST = {"CompleteCommit": "Its last one was committed.", "CompleteAbort": "Its last one was aborted."}


def outlook(transaction: Transaction, leaders: Leaders, now_ms: int) -> str:
    """Says what happens next; `leaders` has those of the partitions of a transaction that is ending."""
    if transaction.is_ending:
        verb = "committed" if transaction.state == PREPARE_COMMIT else "aborted"
        return f"It is being {verb}: {_waiting(transaction.partitions, leaders)}."
    deadline_ms = transaction.deadline_ms
    if deadline_ms is None:
        return f"It has no open transaction. {_PAST.get(transaction.state, '')}".rstrip()
    seconds = (deadline_ms - now_ms) / 1000
    if seconds <= 0:
        return f"It timed out at {time_text(deadline_ms)}, and its coordinator is about to abort it."
    return (
        f"It times out at {time_text(deadline_ms)}, in {duration_text(seconds)}, and is aborted then, unless its "
        "producer ends it before."
    )


def _waiting(partitions: Sequence[Partition], leaders: Leaders) -> str:
    """Says whose markers are not written yet."""
    if not partitions:
        return "all markers are written"
    by_leader: dict[int | None, list[Partition]] = {}
    for each in partitions:
        where = leaders.get(each)
        by_leader.setdefault(where if isinstance(where, int) else None, []).append(each)
    texts = []
    for spu_id, those in by_leader.items():
        missing = (
            "a leader, which the partition does not have" if len(those) == 1 else "leaders, which they do not have"
        )
        texts.append(f"{missing if spu_id is None else f'SPU {spu_id}'} ({named(those)})")
    return f"markers wait for {' and for '.join(texts)}"


def advice_on_hanging(holder: Holder) -> str:
    """Says why a transaction hangs, and how to end it."""
    opened, of = holder.open, holder.transaction
    why = "no coordinator knows its producer"
    if of is not None and of.is_open:
        why = f"the open transaction of {of.id} does not contain {opened.partition}"
    elif of is not None:
        why = f"its transactional id, {of.id}, has no transaction there any more"
    return (
        f"It hangs: {why}, so nothing will end it. "
        f"Abort it with `tailrace transaction abort {opened.partition} --start-offset {opened.first_offset}`."
    )


def named(partitions: Sequence[Partition]) -> str:
    """Names the first partitions, and counts the others."""
    more = len(partitions) - PARTITIONS_NAMED_MAX
    text = ", ".join(map(str, partitions[:PARTITIONS_NAMED_MAX]))
    return f"{text} and {more} more" if more > 0 else text

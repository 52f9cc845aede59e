"""Finds the last records of some partitions, which may be fewer than their offsets suggest.

Compaction removes records, control batches take offsets, and a filter passes few records. So the search goes back in
growing steps, until it has enough records or has come to the log start.
"""

from collections import deque
from collections.abc import Callable, Mapping
from heapq import nlargest

from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import LogEnds, Partition

from .consume_progress import Consuming
from .leader_reading import LeaderReading

TAIL_MAX = 100_000
"""The number of records that `--tail` keeps in memory."""
_STEP_GROWTH = 4
ReaderOf = Callable[[dict[Partition, int], dict[Partition, int]], Consuming]


async def last_records(
    client: LogClient,
    logs: Mapping[Partition, LogEnds],
    count: int,
    reader_of: ReaderOf,
) -> list[Consumed]:
    """Returns the last `count` records that match, over all partitions, from older to newer.

    `reader_of` makes a reader from the offsets where it begins and ends.
    Records of one partition stay in order, even if their timestamps are not.
    """
    newest: list[tuple[int, Partition, int, Consumed]] = []
    for partition, log in logs.items():
        time = -1
        for each in await _last_of(client, partition, log, count, reader_of):
            time = max(time, each.record.timestamp)
            newest.append((time, partition, each.record.offset, each))
        newest = nlargest(count, newest, key=lambda each: each[:3])
    return [each for *_, each in reversed(newest)]


async def _last_of(
    client: LogClient,
    partition: Partition,
    log: LogEnds,
    count: int,
    reader_of: ReaderOf,
) -> deque[Consumed]:
    step = count
    while True:
        start = max(log.start, log.end - step)
        kept: deque[Consumed] = deque(maxlen=count)
        reader = reader_of({partition: start}, {partition: log.end})
        reading = LeaderReading(client, reader)
        while reader.wanted:
            for _, records in await reading.next():
                kept.extend(records)
        if len(kept) == count or start == log.start:
            return kept
        step *= _STEP_GROWTH

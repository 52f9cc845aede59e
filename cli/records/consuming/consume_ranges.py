"""The range of records to consume: offsets, times and durations, and which offsets they mean in each partition."""

import argparse
import re
from collections.abc import Mapping

from tailrace.cli.output.times import Since, since_of
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import answered

BEGINNING = "beginning"
END = "end"


Place = str | int | Since
"""BEGINNING, END, an offset, or a time."""


def place(text: str) -> Place:
    """Reads the value of `--from` or `--to`."""
    if text in (BEGINNING, END):
        return text
    if re.fullmatch(r"[0-9]{1,18}", text) is not None:
        return int(text)
    found = since_of(text)
    if found is not None:
        return found
    raise argparse.ArgumentTypeError(
        f"{text} is not beginning, end, an offset, a time such as 2026-01-31T12:00:00Z, or a duration such as 90m"
    )


async def offsets_of(
    client: LogClient, where: Place, logs: Mapping[Partition, LogEnds], now_ms: int
) -> dict[Partition, int]:
    """Returns the offset in each partition; a time means that of the first record that is not older."""
    match where:
        case Since():
            found = answered(await client.offsets_at(logs, where.timestamp_ms(now_ms)))
            return {each: logs[each].end if offset < 0 else offset for each, offset in found.items()}
        case int():
            return dict.fromkeys(logs, where)
    return {each: log.start if where == BEGINNING else log.end for each, log in logs.items()}


async def ends_of(
    client: LogClient, where: Place, logs: Mapping[Partition, LogEnds], now_ms: int
) -> dict[Partition, int]:
    """Returns the offset before which to stop in each partition, which is never after its log end."""
    return {
        each: min(offset, logs[each].end) for each, offset in (await offsets_of(client, where, logs, now_ms)).items()
    }

"""Writes sets of shards as people write them: `0-3`, or `0-1,5`. Pure."""

import re
from collections.abc import Collection

SHARDS_MAX = 100_000
"""The largest number of shards that a text may name."""

_RANGE = re.compile(r"(0|[1-9][0-9]{0,5})(?:-(0|[1-9][0-9]{0,5}))?")


def format_shards(shards: Collection[int]) -> str:
    """Returns neighbouring shards as ranges, in ascending order; the text is empty if there are no shards."""
    ranges: list[list[int]] = []
    for shard in sorted(shards):
        if ranges and ranges[-1][1] == shard - 1:
            ranges[-1][1] = shard
        else:
            ranges.append([shard, shard])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


def parse_shards(text: str) -> frozenset[int]:
    """Reads what `format_shards` writes. Raises ValueError, with a sentence, for anything else."""
    shards: set[int] = set()
    for part in text.split(",") if text else ():
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise ValueError(f'"{text}" does not name shards: write them like 0-3 or 0-1,5')
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise ValueError(f'"{text}" does not name shards: the range {part.strip()} ends before it begins')
        if last >= SHARDS_MAX:
            raise ValueError(f'"{text}" names shard {last}, but a stream has at most {SHARDS_MAX} shards')
        twice = shards.intersection(range(first, last + 1))
        if twice:
            raise ValueError(f'"{text}" names shard {min(twice)} twice')
        shards.update(range(first, last + 1))
    return frozenset(shards)

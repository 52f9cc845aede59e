"""Buckets of sizes and of times: a histogram has a bounded number of them, whatever the data is.

Each power of two is divided into 16 buckets, so sizes below 32 are exact, and larger ones are at most 7 % off.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

NULL, EMPTY = -2, -1
"""The buckets of what is null, and of what has no bytes."""
_STEPS_LOG2 = 4
_STEPS = 1 << _STEPS_LOG2
SLOTS_MAX = 60
"""The largest number of times in a rate over time."""
_WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY = 86400


class SizeCount(Struct, frozen=True):
    """How many sizes are in [low, high)."""

    low: int
    high: int
    count: int


class SizeStat(Struct, frozen=True):
    """The distribution of a size."""

    count: int = 0
    """How many have a size."""
    nulls: int = 0
    total: int = 0
    p50: int = 0
    p90: int = 0
    p99: int = 0
    largest: int = 0
    buckets: list[SizeCount] = []
    """The powers of two from the smallest to the largest. The first may be [0, 1)."""

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


def bucket_sql(size: str) -> str:
    """Returns the expression of Spark's SQL for the bucket of a size, as `bucket_of` computes it."""
    octave = f"(length(bin({size})) - 1)"
    return (
        f"CAST(CASE WHEN {size} IS NULL THEN {NULL} WHEN {size} = 0 THEN {EMPTY} ELSE {_STEPS} * {octave} + "
        f"shiftright(shiftleft(CAST({size} AS BIGINT), {_STEPS_LOG2}), {octave}) - {_STEPS} END AS INT)"
    )


def bucket_of(size: int | None) -> int:
    """Returns the number of the bucket of a size."""
    if size is None:
        return NULL
    if size == 0:
        return EMPTY
    octave = size.bit_length() - 1
    return _STEPS * octave + ((size << _STEPS_LOG2) >> octave) - _STEPS


def largest_of(bucket: int) -> int:
    """Returns the largest size in a bucket; 0 for those without bytes."""
    if bucket < 0:
        return 0
    octave, step = divmod(bucket, _STEPS)
    low, next_low = ((_STEPS + step + more) << octave for more in (0, 1))
    return max(-(-next_low // _STEPS) - 1, -(-low // _STEPS))


def size_stat(counts: Mapping[int, int], total: int, largest: int) -> SizeStat:
    """Makes a distribution of counts by bucket, and the exact sum and maximum of the sizes."""
    sized = sorted((bucket, count) for bucket, count in counts.items() if bucket != NULL)
    count = sum(each for _, each in sized)
    p50, p90, p99 = (min(_percentile(sized, count, share), largest) for share in (0.5, 0.9, 0.99))
    return SizeStat(count, counts.get(NULL, 0), total, p50, p90, p99, largest, _powers(sized))


def _percentile(sized: Iterable[tuple[int, int]], count: int, share: float) -> int:
    """Returns a size that at least this share of the sizes does not exceed."""
    seen, found = 0, 0
    for bucket, each in sized:
        seen, found = seen + each, largest_of(bucket)
        if seen >= share * count:
            break
    return found


def _powers(sized: Iterable[tuple[int, int]]) -> list[SizeCount]:
    by_power: dict[int, int] = {}
    for bucket, count in sized:
        power = -1 if bucket == EMPTY else bucket // _STEPS
        by_power[power] = by_power.get(power, 0) + count
    if not by_power:
        return []
    powers = range(min(by_power), max(by_power) + 1)
    return [SizeCount(1 << each if each >= 0 else 0, 1 << (each + 1), by_power.get(each, 0)) for each in powers]


def slot_seconds(first_ms: int, last_ms: int) -> int:
    """Returns a round width in seconds, so that a time from the first to the last has at most `SLOTS_MAX` slots."""
    seconds = max(last_ms - first_ms, 0) / 1000
    for width in _WIDTHS:
        if seconds / width <= SLOTS_MAX - 1:
            return width
    return _DAY * (int(seconds / (_DAY * (SLOTS_MAX - 1))) + 1)

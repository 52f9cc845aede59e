"""The sparse index of time: for each entry of the offset index, the largest timestamp of all batches before it.

The two files run in parallel, entry by entry, so a timestamp is all that an entry here holds (64 bits, signed,
little-endian). The numbers never fall, however the producers' clocks jumped.
"""

from bisect import bisect_left
from collections.abc import Sequence

NO_TIMESTAMP = -1


def last_before(times: Sequence[int], timestamp_ms: int) -> int:
    """Which entry is the last that has only smaller timestamps before it; -1 when not even the first has.

    The first record at or after the time lies at or after this entry's batch, and before the next entry's.
    """
    return bisect_left(times, timestamp_ms) - 1

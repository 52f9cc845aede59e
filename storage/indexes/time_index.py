"""The sparse time index: the largest timestamp before the batch of each entry of the offset index.

The two index files run in parallel, entry by entry, so an entry of this one is only a timestamp (64 bits, signed,
little-endian). The timestamps never decrease, even if producers' clocks jump.
"""

from bisect import bisect_left
from collections.abc import Sequence

NO_TIMESTAMP = -1


def last_before(times: Sequence[int], timestamp_ms: int) -> int:
    """Returns the index of the last entry with only smaller timestamps before it; -1 if there is none.

    The first record at or after the time lies at or after this entry's batch, and before the next entry's batch.
    """
    return bisect_left(times, timestamp_ms) - 1

"""Remembers when a few records were appended, and counts how long they took to reach consumers.

The first record after each sync of a log is a sample: about one in a second. So appending and fetching cost the same as
without this. Only fetches near the end of a log are counted. A consumer that is far behind reads old records, and its
lag says more about it.
"""

from bisect import bisect_left
from collections.abc import Iterator

SAMPLES_MAX = 16
SPACING_SECONDS = 0.5
"""The least time between two samples of a log, however often it is synced."""
DELIVERY_BUCKETS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class AppendSamples:
    """The newest samples of one log, in the order of their offsets."""

    __slots__ = ("_samples", "newest")

    def __init__(self) -> None:
        self._samples: list[tuple[int, float]] = []  # an empty deque would take 760 bytes for each log
        self.newest = -1
        """The offset of the newest sample, or -1 if there is none."""

    def note(self, offset: int, now: float) -> None:
        """Notes that the record at `offset` was appended just now, unless there is a sample from a moment ago."""
        samples = self._samples
        while samples and samples[-1][0] >= offset:
            samples.pop()  # the log was truncated since
        if not samples or now - samples[-1][1] >= SPACING_SECONDS:
            samples.append((offset, now))
            del samples[:-SAMPLES_MAX]
        self.newest = samples[-1][0]

    def appended_at(self, start: int, end: int) -> Iterator[float]:
        """Yields when the sampled records from `start` to before `end` were appended."""
        return (at for offset, at in self._samples if start <= offset < end)


class DeliveryLatencies:
    """Counts how long sampled records took from being appended to being sent to a consumer."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(DELIVERY_BUCKETS_SECONDS) + 1)
        self.seconds = 0.0

    def count(self, seconds: float) -> None:
        """Counts one record."""
        self.buckets[bisect_left(DELIVERY_BUCKETS_SECONDS, seconds)] += 1
        self.seconds += seconds

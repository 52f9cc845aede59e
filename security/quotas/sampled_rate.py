"""A rate per second over a sliding window of samples, with the arithmetic of Apache Kafka's sensors.

Amounts are added up in samples of equal length. A sample counts until its last event has left the window. The rate is
the sum of the samples divided by the time since the oldest sample began. That time counts as at least all samples but
the last one, so that a single event in a fresh window does not look like a flood.
"""

import math

from .quota_window import QuotaWindow


class _Sample:
    """The amount that was recorded in one part of the window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: float) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: float) -> None:
        """Begins an empty sample."""
        self.value = 0.0
        self.start_ms = self.last_ms = now_ms


class SampledRate:
    """The amounts of one entity in the window."""

    __slots__ = ("_current", "_samples", "_window")

    def __init__(self, window: QuotaWindow) -> None:
        self._window = window
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, amount: float, now_ms: float) -> None:
        """Adds an amount; a negative one takes back what was recorded."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window.sample_ms:
            sample = self._next_sample(now_ms)
        sample.value += amount
        sample.last_ms = now_ms

    def rate(self, now_ms: float) -> float:
        """Returns the amount per second."""
        return self._measure(now_ms)[0]

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """Returns how long to wait until the rate is down to the limit if nothing more is recorded; 0 if it is."""
        rate, elapsed_ms = self._measure(now_ms)
        if rate <= limit:
            return 0
        return math.floor((rate - limit) / limit * elapsed_ms + 0.5)

    def room(self, limit: float, now_ms: float) -> float:
        """Returns how much can be recorded at this moment before the rate exceeds the limit; negative if it does."""
        self.record(0, now_ms)  # begins the sample to which the amount would be added
        rate, elapsed_ms = self._measure(now_ms)
        return (limit - rate) * (elapsed_ms / 1000)

    def is_idle(self, now_ms: float) -> bool:
        """Whether everything that was recorded has left the window."""
        return all(not each.value or now_ms - each.last_ms >= self._window.span_ms for each in self._samples)

    def _next_sample(self, now_ms: float) -> _Sample:
        # One sample more than the window has, because the oldest may overlap its beginning.
        self._current = (self._current + 1) % (self._window.samples + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _measure(self, now_ms: float) -> tuple[float, float]:
        """Returns the amount per second, and the milliseconds that it was divided by."""
        samples, sample_ms, span_ms = self._window.samples, self._window.sample_ms, self._window.span_ms
        total, oldest_ms = 0.0, now_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= span_ms:
                sample.reset(now_ms)
            total += sample.value
            oldest_ms = min(oldest_ms, sample.start_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = samples - 1 - int(elapsed_ms // sample_ms)
        if missing > 0:
            elapsed_ms += missing * sample_ms
        elapsed_ms = max(elapsed_ms, 1.0)
        return total / (elapsed_ms / 1000), elapsed_ms

"""The span of time over which a quota is averaged."""

from typing import NamedTuple


class QuotaWindow(NamedTuple):
    """A number of samples, and how long each of them takes."""

    samples: int = 11
    sample_ms: float = 1000.0

    @property
    def span_ms(self) -> float:
        """How long a sample counts after its last event."""
        return self.samples * self.sample_ms

"""What a server answers to health checks."""

from typing import NamedTuple


class Readiness(NamedTuple):
    """Whether a server can do its work at this moment, and why, in one line."""

    is_ready: bool
    reason: str

    @property
    def text(self) -> str:
        """The line for people and programs that ask."""
        return f"{'ready' if self.is_ready else 'not ready'}: {self.reason}"

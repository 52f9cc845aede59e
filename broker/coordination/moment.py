"""The time of an event by both clocks: Trio's for deadlines, the wall clock for stored times."""

from typing import NamedTuple


class Moment(NamedTuple):
    now: float
    """The time by Trio's clock, in seconds."""
    now_ms: int
    """The time by the wall clock, in milliseconds."""

"""When something happens: deadlines go by Trio's clock, what is stored by the wall clock."""

from typing import NamedTuple


class Moment(NamedTuple):
    now: float
    """By Trio's clock, in seconds."""
    now_ms: int
    """By the wall clock."""

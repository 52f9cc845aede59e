"""How long a member may handle its shards after a heartbeat, by its own clock. Pure."""

from typing import NamedTuple

HAND_OUT_FRACTION = 0.8
HANDLE_FRACTION = 0.95
"""Clocks may run at rates that differ by less than the rest of the session timeout: five per cent."""


class MemberLease(NamedTuple):
    """The two ends of a lease, by the clock of `trio.current_time()`."""

    hand_out_until: float
    """No event is handed to a worker after this time."""
    handle_until: float
    """No event is handled after this time: workers that still handle one are killed."""


def lease_from(sent_at: float, session_timeout: float) -> MemberLease:
    """Returns the lease that a heartbeat gives, counted from before it was sent."""
    return MemberLease(sent_at + HAND_OUT_FRACTION * session_timeout, sent_at + HANDLE_FRACTION * session_timeout)

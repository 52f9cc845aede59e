"""A follower as its leader sees it: what it has, what is on its way to it, and when it has to be asked."""

import math
from collections import deque

from .messages import Append, AppendReply


class FollowerProgress:
    """In the process that said Hello. Nothing is waited for from one that has all and knows it: `resend_at` is inf."""

    __slots__ = (
        "_due_high_watermark",
        "asked_at",
        "high_watermark",
        "high_watermark_lag",
        "in_flight",
        "incarnation",
        "log_end_when_asked",
        "log_start",
        "matched_end",
        "missed_from",
        "resend_at",
        "sent_again_from",
        "sent_end",
        "told_high_watermark",
        "told_log_start",
    )

    def __init__(
        self,
        incarnation: str,
        matched_end: int | None = None,
        high_watermark: int = 0,
        high_watermark_lag: int = 0,
        log_start: int = 0,
    ) -> None:
        self.incarnation = incarnation
        self.matched_end = matched_end
        """Up to where it has the leader's log; None until it has answered the seal."""
        self.high_watermark = high_watermark
        """As it confirmed it."""
        self.high_watermark_lag = high_watermark_lag
        """How far that is behind what it was told with the records that it confirmed. What the leader knows by now is
        no measure: when a slow follower leaves the live replicas the high watermark jumps, and nobody can have heard of
        it."""
        self.log_start = log_start
        """As it confirmed it; what it deleted of a log that the leader does not continue does not count."""
        self.told_high_watermark = 0
        self.told_log_start = 0
        self.sent_end = 0
        self.in_flight: deque[tuple[int, int]] = deque()
        """Ends of what was sent and has not been matched, with the high watermark that is to be known by then."""
        self.sent_again_from: int | None = None
        """One gap makes many replies; it is closed once."""
        self.missed_from: int | None = None
        """What it said the last time that it misses."""
        self.resend_at = math.inf
        """If nothing is heard until then, it is sent something again."""
        self.asked_at = -math.inf
        self.log_end_when_asked = 0
        """How long the leader's log was at that time: who matches it later was caught up then."""
        self._due_high_watermark = 0
        """What it was told with the records that it confirmed."""

    @property
    def has_answered(self) -> bool:
        """An Append."""
        return self.asked_at > -math.inf

    def begin(self, matched_end: int, now: float) -> None:
        """It is sealed. What it had matched before in this epoch, it still has."""
        self.matched_end = max(matched_end, self.matched_end or 0)
        self.sent_again_from = None
        self.resend_at = now
        self._rewind(self.matched_end)

    def begin_again(self, now: float) -> None:
        """Nothing is known of it any more, but that it is there."""
        self.matched_end = None
        self.resend_at = now

    def on_reply(self, reply: AppendReply) -> bool:
        """Whether it misses what it missed before, though that was sent again."""
        assert self.matched_end is not None
        matched_end, in_flight = reply.matched_end, self.in_flight
        if matched_end > self.matched_end:
            self.matched_end = matched_end
        if reply.high_watermark > self.high_watermark:
            self.high_watermark = reply.high_watermark
        if self.log_start < reply.log_start <= matched_end:  # else it is that of another log, which is to go
            self.log_start = reply.log_start
        if matched_end > self.sent_end:
            self.sent_end = matched_end
        while in_flight and in_flight[0][0] <= matched_end:
            _, self._due_high_watermark = in_flight.popleft()
        self.high_watermark_lag = self._due_high_watermark - self.high_watermark
        if not reply.missed or self.sent_again_from == reply.matched_end:
            return False
        misses_again = self.missed_from == reply.matched_end
        self.missed_from = self.sent_again_from = reply.matched_end
        self._rewind(reply.matched_end)
        return misses_again

    def on_sent(self, append: Append, end: int) -> None:
        if end > self.sent_end:
            self.sent_end = end
            high_watermark = append.high_watermark
            self.in_flight.append((end, high_watermark if high_watermark < end else end))
        self.told_high_watermark = append.high_watermark
        self.told_log_start = append.log_start

    def caught_up_at(self, log_end: int, now: float) -> float | None:
        """Since when it has, or until when it had, all that the leader had; None: that is not news."""
        assert self.matched_end is not None
        if self.matched_end >= log_end:
            at = math.inf
        elif self.matched_end >= self.log_end_when_asked:
            at = self.asked_at
        else:
            return None
        self.asked_at, self.log_end_when_asked = now, log_end
        return at

    def _rewind(self, to: int) -> None:
        self.sent_end = to
        self.in_flight.clear()

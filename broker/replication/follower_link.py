"""A follower as its leader sees it: what it has, what is on its way to it, and when it has to be asked."""

import math

from msgspec import Struct, field

from .messages import Append, AppendReply


class FollowerLink(Struct):
    """In the process that said Hello. Nothing is waited for from one that has all and knows it: `quiet_at` is inf."""

    incarnation: str
    matched_end: int | None = None
    """Up to where it has the leader's log; None until it has answered the seal."""
    high_watermark: int = 0
    """As it confirmed it."""
    high_watermark_lag: int = 0
    """How far that is behind what it was told with the records that it confirmed. What the leader knows by now is no
    measure: when a slow follower leaves the live replicas the high watermark jumps, and nobody can have heard of it."""
    log_start: int = 0
    """As it confirmed it; what it deleted of a log that the leader does not continue does not count."""
    told_high_watermark: int = 0
    told_log_start: int = 0
    sent_end: int = 0
    in_flight: list[tuple[int, int]] = field(default_factory=list)
    """Ends of what was sent and has not been matched, with the high watermark that is to be known by then."""
    sent_again_from: int | None = None
    """One gap makes many replies; it is closed once."""
    missed_from: int | None = None
    """What it said the last time that it misses."""
    quiet_at: float = math.inf
    """If nothing is heard until then, it is sent something again."""
    asked_at: float = -math.inf
    log_end_when_asked: int = 0
    """How long the leader's log was at that time: who matches it later was caught up then."""
    _due_high_watermark: int = 0
    """What it was told with the records that it confirmed."""

    def begin(self, matched_end: int, now: float) -> None:
        """It is sealed. What it had matched before in this epoch, it still has."""
        self.matched_end = max(matched_end, self.matched_end or 0)
        self.sent_again_from = None
        self.quiet_at = now
        self._rewind(self.matched_end)

    def begin_again(self, now: float) -> None:
        """Nothing is known of it any more, but that it is there."""
        self.matched_end = None
        self.quiet_at = now

    def on_reply(self, reply: AppendReply) -> bool:
        """Whether it misses what it missed before, though that was sent again."""
        assert self.matched_end is not None
        self.matched_end = max(self.matched_end, reply.matched_end)
        self.high_watermark = max(self.high_watermark, reply.high_watermark)
        if self.log_start < reply.log_start <= reply.matched_end:  # else it is that of another log, which is to go
            self.log_start = reply.log_start
        self.sent_end = max(self.sent_end, reply.matched_end)
        in_flight, due = self.in_flight, self._due_high_watermark
        while in_flight and in_flight[0][0] <= reply.matched_end:
            _, due = in_flight.pop(0)
        self._due_high_watermark = due
        self.high_watermark_lag = due - self.high_watermark
        if not reply.missed or self.sent_again_from == reply.matched_end:
            return False
        misses_again = self.missed_from == reply.matched_end
        self.missed_from = self.sent_again_from = reply.matched_end
        self._rewind(reply.matched_end)
        return misses_again

    def on_sent(self, append: Append, end: int) -> None:
        if end > self.sent_end:
            self.sent_end = end
            self.in_flight.append((end, min(append.high_watermark, end)))
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

"""A leader's view of one follower: what it has matched, what is in flight to it, and when to send again."""

import math

from .messages import Append, AppendReply


class FollowerProgress:
    """The progress of the follower process that said Hello.

    If the follower has everything and knows it, no response is expected and `resend_at` is infinite.
    """

    __slots__ = (
        "_expected_high_watermark",
        "high_watermark",
        "high_watermark_lag",
        "in_flight",
        "incarnation",
        "last_reply_at",
        "log_end_at_last_reply",
        "log_start",
        "matched_end",
        "missed_from",
        "resend_at",
        "resent_from",
        "sent_end",
        "sent_high_watermark",
        "sent_log_start",
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
        """The end up to which the follower has the leader's log; None until it has responded to Seal."""
        self.high_watermark = high_watermark
        """The high watermark that the follower has confirmed."""
        self.high_watermark_lag = high_watermark_lag
        """By how much `high_watermark` is smaller than the one sent with the records that the follower has confirmed.

        The leader's current high watermark is no measure: it jumps when a slow follower leaves the live replica set,
        and no follower can know about that yet.
        """
        self.log_start = log_start
        """The log start that the follower has confirmed. A log start beyond the matched end does not count: it belongs
        to a log that the follower will truncate."""
        self.sent_high_watermark = 0
        self.sent_log_start = 0
        self.sent_end = 0
        self.in_flight: list[tuple[int, int]] = []
        """The ends of the messages that are sent and not matched yet, each with the high watermark that the follower
        knows by then. A list, because there are only a few, and an empty deque would take 760 bytes per follower."""
        self.resent_from: int | None = None
        """The matched end from which entries were sent again. One gap causes many replies, but is filled once."""
        self.missed_from: int | None = None
        """The matched end at which the follower last reported missing entries."""
        self.resend_at = math.inf
        """When to send something again, if the follower does not respond before."""
        self.last_reply_at = -math.inf
        self.log_end_at_last_reply = 0
        """The leader's log end at the last reply. A follower that matches it later was caught up at that time."""
        self._expected_high_watermark = 0
        """The high watermark that was sent with the records that the follower has confirmed."""

    @property
    def has_replied(self) -> bool:
        """Whether the follower has responded to an Append."""
        return self.last_reply_at > -math.inf

    def on_sealed(self, matched_end: int, now: float) -> None:
        """Starts sending after the follower's response to Seal. Whatever it had matched in this epoch, it still has."""
        self.matched_end = max(matched_end, self.matched_end or 0)
        self.resent_from = None
        self.resend_at = now
        self._rewind(self.matched_end)

    def reset(self, now: float) -> None:
        """Forgets everything except that the follower is connected."""
        self.matched_end = None
        self.resend_at = now

    def on_reply(self, reply: AppendReply) -> bool:
        """Takes in a reply; returns whether the follower still misses entries that were sent again."""
        assert self.matched_end is not None
        matched_end, in_flight = reply.matched_end, self.in_flight
        if matched_end > self.matched_end:
            self.matched_end = matched_end
        if reply.high_watermark > self.high_watermark:
            self.high_watermark = reply.high_watermark
        if self.log_start < reply.log_start <= matched_end:  # otherwise it is the start of a log that will be truncated
            self.log_start = reply.log_start
        if matched_end > self.sent_end:
            self.sent_end = matched_end
        while in_flight and in_flight[0][0] <= matched_end:
            _, self._expected_high_watermark = in_flight.pop(0)
        self.high_watermark_lag = self._expected_high_watermark - self.high_watermark
        if not reply.missed or self.resent_from == reply.matched_end:
            return False
        misses_again = self.missed_from == reply.matched_end
        self.missed_from = self.resent_from = reply.matched_end
        self._rewind(reply.matched_end)
        return misses_again

    def on_sent(self, append: Append, end: int) -> None:
        """Notes that an Append was sent, whose entries go up to `end`."""
        if end > self.sent_end:
            self.sent_end = end
            high_watermark = append.high_watermark
            self.in_flight.append((end, high_watermark if high_watermark < end else end))
        self.sent_high_watermark = append.high_watermark
        self.sent_log_start = append.log_start

    def caught_up_at(self, log_end: int, now: float) -> float | None:
        """Returns the time at which the follower was last known to have everything; None if the reply does not show a
        new time.

        The time is infinite if the follower still has everything.
        """
        assert self.matched_end is not None
        if self.matched_end >= log_end:
            at = math.inf
        elif self.matched_end >= self.log_end_at_last_reply:
            at = self.last_reply_at
        else:
            return None
        self.last_reply_at, self.log_end_at_last_reply = now, log_end
        return at

    def _rewind(self, to: int) -> None:
        self.sent_end = to
        self.in_flight.clear()

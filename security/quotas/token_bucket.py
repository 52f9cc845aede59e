"""A token bucket (KIP-599): it fills at the limit's rate, and a request may empty it and go into debt once.

The bucket holds at most what flows in during the whole window. Clients are throttled while it is in debt, for as long
as the debt takes to fill up. A burst therefore costs no more time than it should, unlike with a sampled rate.
"""

import math

from .quota_window import QuotaWindow


class TokenBucket:
    """The tokens of one entity. The limit is an argument of each call, because it may change."""

    __slots__ = ("_tokens", "_updated_ms", "_window")

    def __init__(self, window: QuotaWindow) -> None:
        self._window = window
        self._tokens = 0.0
        self._updated_ms: float | None = None
        """When tokens were last added; None until the bucket is first used. It is full then."""

    def tokens(self, limit: float, now_ms: float) -> float:
        """Returns the tokens in the bucket; a negative number is a debt."""
        most = self._most(limit)
        if self._updated_ms is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + limit * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, amount: float, limit: float, now_ms: float) -> None:
        """Takes tokens, even if the bucket goes into debt; a negative amount returns tokens."""
        self._tokens = min(self._most(limit), self.tokens(limit, now_ms) - amount)

    def throttle_ms(self, limit: float, now_ms: float) -> int:
        """Returns how long it takes until the bucket is out of debt; 0 if it has none."""
        tokens = self.tokens(limit, now_ms)
        return math.floor(-tokens / limit * 1000 + 0.5) if tokens < 0 else 0

    def is_idle(self, limit: float, now_ms: float) -> bool:
        """Whether the bucket is as full as a new one."""
        return self.tokens(limit, now_ms) >= self._most(limit)

    def _most(self, limit: float) -> float:
        return self._window.span_ms / 1000 * limit

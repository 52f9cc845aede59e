"""Measures how much of their quotas clients have used, for a bounded number of clients.

A meter whose window is empty, or whose bucket is full, is worth as much as a new one, so it can be dropped when there
are too many. If all meters are in use, further clients share one meter for each kind of quota: a client that invents
names cannot make the memory grow, and gains nothing from its names. Quotas of users have as many meters again, so that
it cannot make users share a meter either, who have to prove their names.
"""

from .quota_levels import Limit, Scope
from .quota_rules import CONTROLLER_MUTATION_RATE
from .quota_window import QuotaWindow
from .sampled_rate import SampledRate
from .token_bucket import TokenBucket

METERS_MAX = 10_000
"""How many meters may be in use for client ids and addresses, and again for users."""
SWEEP_MS = 1000
"""How long the meters are left alone after a search for unused ones."""
OTHER = Scope("other clients", "other clients")
"""The scope of the meters that are shared because there are too many clients."""


class RateMeter:
    """The use of a quota on bytes, on time, or on connections."""

    __slots__ = ("_rate", "limit", "quota", "scope")

    def __init__(self, quota: str, scope: Scope, limit: float, window: QuotaWindow) -> None:
        self.quota = quota
        self.scope = scope
        self.limit = limit
        self._rate = SampledRate(window)

    def record(self, amount: float, now_ms: float) -> None:
        """Adds an amount; a negative one takes back what was recorded."""
        self._rate.record(amount, now_ms)

    def rate(self, now_ms: float) -> float:
        """Returns the amount per second."""
        return self._rate.rate(now_ms)

    def throttle_ms(self, now_ms: float) -> int:
        """Returns how long the client has to wait to be within its quota again; 0 if it is."""
        return self._rate.throttle_ms(self.limit, now_ms)

    def room(self, now_ms: float) -> float:
        """Returns how much can be recorded at this moment without throttling; negative if the client is over it."""
        return self._rate.room(self.limit, now_ms)

    def is_idle(self, now_ms: float) -> bool:
        """Whether the meter is worth as much as a new one."""
        return self._rate.is_idle(now_ms)


class BucketMeter:
    """The use of a quota on changes of the cluster."""

    __slots__ = ("_bucket", "limit", "quota", "scope")

    def __init__(self, quota: str, scope: Scope, limit: float, window: QuotaWindow) -> None:
        self.quota = quota
        self.scope = scope
        self.limit = limit
        self._bucket = TokenBucket(window)

    def tokens(self, now_ms: float) -> float:
        """Returns how many changes are left; a negative number is a debt."""
        return self._bucket.tokens(self.limit, now_ms)

    def take(self, amount: float, now_ms: float) -> None:
        """Takes tokens, even if the bucket goes into debt; a negative amount returns tokens."""
        self._bucket.take(amount, self.limit, now_ms)

    def throttle_ms(self, now_ms: float) -> int:
        """Returns how long the client has to wait until the bucket is out of debt; 0 if it has none."""
        return self._bucket.throttle_ms(self.limit, now_ms)

    def is_idle(self, now_ms: float) -> bool:
        """Whether the meter is worth as much as a new one."""
        return self._bucket.is_idle(self.limit, now_ms)


class QuotaMeters:
    """The meters of all clients with a quota."""

    def __init__(
        self, window: QuotaWindow, mutation_window: QuotaWindow | None = None, *, meters_max: int = METERS_MAX
    ) -> None:
        self._window = window
        self._mutation_window = window if mutation_window is None else mutation_window
        self._meters_max = meters_max
        self._rates: dict[tuple[str, Scope], RateMeter] = {}
        self._buckets: dict[tuple[str, Scope], BucketMeter] = {}
        self._sweep_after_ms = float("-inf")
        self.sweeps = 0
        """How often meters were dropped. Code that keeps a meter must look it up again after that."""

    def __len__(self) -> int:
        return len(self._rates) + len(self._buckets)

    def rate_meter(self, quota: str, limit: Limit, now_ms: float) -> RateMeter:
        """Returns the meter of a quota with a rate."""
        key = quota, limit.scope
        meter = self._rates.get(key)
        if meter is None:
            if not self._has_room(limit.scope, now_ms):
                key = quota, OTHER
                meter = self._rates.get(key)
            if meter is None:
                meter = self._rates[key] = RateMeter(*key, limit.value, self._window)
        meter.limit = limit.value
        return meter

    def bucket_meter(self, limit: Limit, now_ms: float) -> BucketMeter:
        """Returns the meter of a quota on changes of the cluster."""
        key = CONTROLLER_MUTATION_RATE, limit.scope
        meter = self._buckets.get(key)
        if meter is None:
            if not self._has_room(limit.scope, now_ms):
                key = CONTROLLER_MUTATION_RATE, OTHER
                meter = self._buckets.get(key)
            if meter is None:
                meter = self._buckets[key] = BucketMeter(*key, limit.value, self._mutation_window)
        meter.limit = limit.value
        return meter

    def _has_room(self, scope: Scope, now_ms: float) -> bool:
        """Drops unused meters if there are too many. Returns whether one more may exist for the scope."""
        most = self._meters_max if scope.client_id else 2 * self._meters_max
        if len(self) >= most and now_ms >= self._sweep_after_ms:
            self._sweep_after_ms = now_ms + SWEEP_MS
            before = len(self)
            self._rates = {key: meter for key, meter in self._rates.items() if not meter.is_idle(now_ms)}
            self._buckets = {key: meter for key, meter in self._buckets.items() if not meter.is_idle(now_ms)}
            self.sweeps += len(self) < before
        return len(self) < most

"""The changes of the cluster that one request makes, counted against its client's quota (KIP-599)."""

from collections.abc import Callable

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.security.quotas.quota_meters import BucketMeter


class RequestMutations:
    """The quota of one request.

    A strict quota refuses changes while the client's bucket is in debt. Older versions of the requests have no error
    for that: their changes are made, and the client has to wait after them.
    """

    def __init__(self, meter: BucketMeter, is_strict: bool, now_ms: Callable[[], float]) -> None:
        self._meter = meter
        self._is_strict = is_strict
        self._now_ms = now_ms
        self._throttled_until_ms = 0.0

    @property
    def throttle_ms(self) -> int:
        """For how many milliseconds the client is throttled because of this request."""
        return max(0, round(self._throttled_until_ms - self._now_ms()))

    def take(self, changes: int) -> KafkaError | None:
        """Counts changes of partitions that are about to be made. Returns the refusal if the quota is used up."""
        now_ms = self._now_ms()
        if self._is_strict:
            throttle_ms = self._meter.throttle_ms(now_ms)
            if throttle_ms > 0:
                self._throttled_until_ms = now_ms + throttle_ms
                return KafkaError(
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                    f"this client may change {self._meter.limit:g} partitions a second; "
                    f"it can go on in {throttle_ms} ms",
                )
        self._meter.take(changes, now_ms)
        if not self._is_strict:
            self._throttled_until_ms = now_ms + self._meter.throttle_ms(now_ms)
        return None

    def give_back(self, changes: int) -> None:
        """Takes back what was counted for changes that were not made."""
        now_ms = self._now_ms()
        self._meter.take(-changes, now_ms)
        if not self._is_strict:
            self._throttled_until_ms = now_ms + self._meter.throttle_ms(now_ms)

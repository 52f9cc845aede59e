"""One request of a client with quotas: counts its bytes and its time, and tells the client to wait if that is too much.

The response has the longest of the times that the client's quotas ask for. What a quota allows is looked up when the
response is encoded, since only then all is known. A throttled fetch gets no records, so that its client reads them
later, within its quota; see `hold_back`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from tailrace.protocol.apis import Api, ApiKey
from tailrace.protocol.codec.fields import Versions
from tailrace.protocol.codec.headers import ResponseEncoder
from tailrace.protocol.codec.primitives import Part
from tailrace.security.quotas.quota_meters import BucketMeter, RateMeter

from .server_quotas import ClientMeters, ServerQuotas

_PERCENT_PER_MS = 0.1
"""A request that takes a millisecond takes a tenth of a percent of a second."""
_EXEMPT = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.WRITE_TXN_MARKERS})
"""The APIs whose time does not count: clients cannot do without them, or only servers use them."""


class MeasuredRequest:
    """What one request has used so far."""

    __slots__ = (
        "_api",
        "_busy_ms",
        "_has_field",
        "_held_back",
        "_meters",
        "_on_throttled",
        "_quotas",
        "_record_bytes",
        "_request_bytes",
        "_since_ms",
        "encode",
    )

    def __init__(
        self,
        quotas: ServerQuotas,
        meters: ClientMeters,
        api: Api,
        api_version: int,
        request_bytes: int,
        encode: ResponseEncoder,
        on_throttled: Callable[[int], None],
    ) -> None:
        """`on_throttled` is called with the milliseconds that the client has been told to wait."""
        self._quotas = quotas
        self._meters = meters
        self._api = api
        self._has_field = has_throttle_time(api, api_version)
        self._request_bytes = request_bytes
        self._on_throttled = on_throttled
        self.encode = encode
        """Encodes a response without measuring it."""
        self._since_ms: float | None = quotas.now_ms()
        """Since when this request has kept the server busy; None while it waits."""
        self._busy_ms = 0.0
        self._held_back: int | None = None
        """The result of `hold_back`; None unless it was called."""
        self._record_bytes = 0

    # called by the connection

    def resumed(self) -> None:
        """Takes note that work on the request goes on, after `handled` was called."""
        if self._since_ms is None:
            self._since_ms = self._quotas.now_ms()

    def handled(self) -> None:
        """Takes note that the handler has returned, so that the request is answered already or waits."""
        if self._since_ms is not None:
            self._busy_ms += self._quotas.now_ms() - self._since_ms
            self._since_ms = None

    def encode_throttled(self, correlation_id: int, message: Any) -> list[Part]:
        """Encodes the response with the time for which the client has to wait."""
        now_ms = self._quotas.now_ms()
        if self._since_ms is None:
            self._since_ms = now_ms
        meter: RateMeter | BucketMeter | None = None
        if self._held_back is not None:
            throttle_ms = self._held_back
        else:
            throttle_ms, meter = self._decide(now_ms)
        own = getattr(message, "throttle_time_ms", 0)
        if own > throttle_ms:  # a quota on changes was used up, here or at the Streaming Controller
            throttle_ms, meter = own, self._meters.mutations
        elif throttle_ms > own and self._has_field:
            message = replace(message, throttle_time_ms=throttle_ms)  # the response may be shared by many clients
        self._note(meter, throttle_ms)
        parts = self.encode(correlation_id, message)
        if self._api.key is ApiKey.FETCH and self._meters.fetched is not None and not throttle_ms:
            self._meters.fetched.record(sum(map(len, parts)) - self._record_bytes, now_ms)
        self._end(throttle_ms)
        return parts

    def end_without_response(self) -> None:
        """Counts a produce request with acks=0. Its client is not told to wait, and has to nevertheless."""
        produced = self._meters.produced
        if produced is not None and self._api.key is ApiKey.PRODUCE:
            now_ms = self._quotas.now_ms()
            produced.record(self._request_bytes, now_ms)
            throttle_ms = produced.throttle_ms(now_ms)
            self._note(produced, throttle_ms)
            self._end(throttle_ms)

    # called by the handler of Fetch

    @property
    def bytes_max(self) -> int:
        """The most bytes that a response may have without certain throttling."""
        fetched = self._meters.fetched
        if fetched is None:
            return 2**31 - 1
        samples, sample_ms = self._quotas.window
        return max(1, int(min(fetched.limit * (samples - 1) * sample_ms / 1000, 2**31 - 1)))

    def hold_back(self, record_bytes: int) -> int:
        """Counts the records of the response. Returns for how many milliseconds the client is throttled.

        If that is not 0, the records are not sent and do not count.
        """
        now_ms = self._quotas.now_ms()
        if self._since_ms is None:
            self._since_ms = now_ms
        fetched, bandwidth_ms = self._meters.fetched, 0
        if fetched is not None:
            fetched.record(record_bytes, now_ms)
            bandwidth_ms = fetched.throttle_ms(now_ms)
        time_ms = self._take_time(now_ms)
        throttle_ms = max(bandwidth_ms, time_ms)
        if throttle_ms and fetched is not None:
            fetched.record(-record_bytes, now_ms)
        elif fetched is not None:
            self._record_bytes = record_bytes
        self._note(fetched if bandwidth_ms > time_ms else self._meters.time, throttle_ms)
        self._held_back = throttle_ms
        return throttle_ms

    # decisions

    def _decide(self, now_ms: float) -> tuple[int, RateMeter | None]:
        """Returns for how many milliseconds the client has to wait, and the meter that says so."""
        produced, bandwidth_ms = self._meters.produced, 0
        if produced is not None and self._api.key is ApiKey.PRODUCE:
            produced.record(self._request_bytes, now_ms)
            bandwidth_ms = produced.throttle_ms(now_ms)
        time_ms = 0 if self._api.key in _EXEMPT else self._take_time(now_ms)
        return (bandwidth_ms, produced) if bandwidth_ms > time_ms else (time_ms, self._meters.time)

    def _take_time(self, now_ms: float) -> int:
        """Counts the time until now. Returns for how long the client has to wait: at most a sample of the window."""
        assert self._since_ms is not None, "the request is being handled"
        busy_ms, self._busy_ms = self._busy_ms + now_ms - self._since_ms, 0.0
        self._since_ms = now_ms
        meter = self._meters.time
        if meter is None:
            return 0
        meter.record(busy_ms * _PERCENT_PER_MS, now_ms)
        return min(meter.throttle_ms(now_ms), int(self._quotas.window.sample_ms))

    def _note(self, meter: RateMeter | BucketMeter | None, throttle_ms: int) -> None:
        if meter is not None and throttle_ms > 0:
            self._quotas.metrics.on_throttled(meter.quota, meter.scope, throttle_ms)

    def _end(self, throttle_ms: int) -> None:
        """Counts the time that encoding took, and mutes the connection if the client is throttled."""
        self.handled()
        if self._meters.time is not None and self._api.key not in _EXEMPT:
            self._meters.time.record(self._busy_ms * _PERCENT_PER_MS, self._quotas.now_ms())
        self._busy_ms = 0.0
        if throttle_ms > 0:
            self._on_throttled(throttle_ms)


@lru_cache(maxsize=1024)
def has_throttle_time(api: Api, api_version: int) -> bool:
    """Returns whether the response has a field for the time to wait in this version."""
    fields: Sequence[Any] = api.response.FIELDS
    return any(
        field.name == "throttle_time_ms" and Versions.parse(field.versions).holds(api_version) for field in fields
    )

"""Produce requests that a shortcut handles for a client with a quota: as many as the quota allows without throttling.

Within the quota, a response has no time to wait, so that nothing else is different from a client without a quota. The
first request beyond the quota is left for the ordinary path, which throttles the client.
"""

from tailrace.security.quotas.quota_meters import RateMeter
from tailrace.server.inbox import ArrivedRequests


class CountedRequests:
    """One request, and those behind it that a shortcut takes along."""

    __slots__ = ("_arrived", "_bytes", "_meter", "_now_ms", "_room")

    def __init__(
        self, arrived: ArrivedRequests, request_bytes: int, meter: RateMeter, room: float, now_ms: float
    ) -> None:
        """`room` is how many bytes the meter allows now, including the `request_bytes` of the first request."""
        self._arrived = arrived
        self._meter = meter
        self._now_ms = now_ms
        self._room = room
        self._bytes = request_bytes

    def next_request(self) -> memoryview | None:
        """Takes the next request; None if it has not arrived, or exceeds the quota."""
        request = self._arrived.next_request()
        if request is None:
            return None
        if self._bytes + len(request) > self._room:
            self._arrived.put_back(request)
            return None
        self._bytes += len(request)
        return request

    def put_back(self, request: memoryview) -> None:
        """Returns the request that was taken last, which does not count then."""
        self._bytes -= len(request)
        self._arrived.put_back(request)

    def record(self) -> None:
        """Counts the requests that were taken, once they are handled."""
        self._meter.record(self._bytes, self._now_ms)

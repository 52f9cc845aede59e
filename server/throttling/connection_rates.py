"""How fast clients may connect: to a server as a whole, and from one address.

The settings and numbers are those of Apache Kafka. If too many clients connect to the server, all of them wait in the
backlog of the listener. If too many come from one address that has a quota, each of those is kept waiting and then
refused, without a place in the server's rate.
"""

from tailrace.security.quotas.quota_levels import Limit, Scope
from tailrace.security.quotas.quota_meters import RateMeter
from tailrace.security.quotas.quota_rules import CONNECTION_CREATION_RATE, canonical_address

from .server_quotas import ServerQuotas


class ConnectionRates:
    """The rates of new connections of one server."""

    def __init__(self, quotas: ServerQuotas) -> None:
        self._quotas = quotas
        self._server = RateMeter(CONNECTION_CREATION_RATE, Scope("", ""), 1, quotas.window)

    def delay_ms(self, rate_max: int) -> int:
        """Counts a connection. Returns how long it has to wait until it is accepted: at most a sample of the window."""
        now_ms = self._quotas.now_ms()
        self._server.limit = rate_max
        self._server.record(1, now_ms)
        return min(self._server.throttle_ms(now_ms), int(self._quotas.window.sample_ms))

    def refusal_ms(self, host: str) -> int:
        """Counts a connection of its address. Returns how long to wait before it is refused; 0 if it is accepted.

        A refused connection does not count.
        """
        quotas = self._quotas
        rate = quotas.levels.connection_rate(host)
        if rate is None:
            return 0
        now_ms = quotas.now_ms()
        scope = Scope("", canonical_address(host) or host)
        meter = quotas.meters.rate_meter(CONNECTION_CREATION_RATE, Limit(rate, scope), now_ms)
        meter.record(1, now_ms)
        throttle_ms = min(meter.throttle_ms(now_ms), int(quotas.window.sample_ms))
        if throttle_ms > 0:
            meter.record(-1, now_ms)
            self._server.record(-1, now_ms)
        return throttle_ms

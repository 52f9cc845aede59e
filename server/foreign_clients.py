"""Limits the log lines about clients that speak TLS or HTTP on a port of Kafka's protocol.

Such a client tries again many times a second, and each attempt would be a line.
"""

from msgspec import Struct

LOG_INTERVAL_SECONDS = 60.0
ADDRESSES_MAX = 1000
"""The number of addresses that are remembered. Beyond it nothing is logged about further addresses for a while."""


class _Logged(Struct):
    """What is known about the clients at one address."""

    at: float
    """When a line was logged."""
    since: int = 0
    """The number of connections since that line."""


class ForeignClients:
    """Remembers which addresses were logged lately."""

    def __init__(self) -> None:
        self._logged: dict[str, _Logged] = {}
        """By address, in the order of the last lines."""

    def count_to_log(self, host: str, now: float) -> int | None:
        """Counts a connection from `host`.

        Returns the number of connections that a log line must report now, or None if it is too early for a line.
        """
        logged = self._logged.get(host)
        if logged is not None and now - logged.at < LOG_INTERVAL_SECONDS:
            logged.since += 1
            return None
        if logged is None and len(self._logged) >= ADDRESSES_MAX and not self._forget_oldest(now):
            return None
        self._logged.pop(host, None)
        self._logged[host] = _Logged(now)
        return 1 if logged is None else logged.since + 1

    def _forget_oldest(self, now: float) -> bool:
        """Forgets the address that was logged first; returns False if even that was too lately."""
        host, logged = next(iter(self._logged.items()))
        if now - logged.at < LOG_INTERVAL_SECONDS:
            return False
        del self._logged[host]
        return True

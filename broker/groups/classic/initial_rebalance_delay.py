"""How long a group that was empty waits for more members before its first rebalance is over.

Consumers of one application start within seconds of each other; a rebalance for each of them would stop them all each
time. So it waits, and for as long as new ones come it waits once more, up to a rebalance timeout altogether.
"""


class FirstWait:
    __slots__ = ("_delay_ms", "_left_ms", "_waited_ms", "somebody_came")

    def __init__(self, delay_ms: int, rebalance_timeout_ms: int) -> None:
        self.somebody_came = False
        """Since it waits this time."""
        self._delay_ms = delay_ms
        self._waited_ms = delay_ms
        self._left_ms = max(rebalance_timeout_ms - delay_ms, 0)

    def again_ms(self) -> int:
        """It has waited: for how long it waits once more; 0 when it has waited enough."""
        if not self.somebody_came or self._left_ms == 0:
            return 0
        self.somebody_came = False
        again_ms = min(self._delay_ms, self._left_ms)
        self._left_ms = max(self._left_ms - self._waited_ms, 0)
        self._waited_ms = again_ms
        return again_ms

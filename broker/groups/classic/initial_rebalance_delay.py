"""The delay with which an empty group waits for more members before its first rebalance ends.

The consumers of an application start within seconds of each other, and a rebalance for each would stop all of them. The
group therefore waits, and waits again while new members join, up to the rebalance timeout altogether.
"""


class InitialRebalanceDelay:
    __slots__ = ("_delay_ms", "_left_ms", "_waited_ms", "member_joined")

    def __init__(self, delay_ms: int, rebalance_timeout_ms: int) -> None:
        self.member_joined = False
        """Whether a member has joined since the current wait began."""
        self._delay_ms = delay_ms
        self._waited_ms = delay_ms
        self._left_ms = max(rebalance_timeout_ms - delay_ms, 0)

    def next_ms(self) -> int:
        """Ends a wait, and returns how long to wait again: 0 if the group has waited enough."""
        if not self.member_joined or self._left_ms == 0:
            return 0
        self.member_joined = False
        extra_ms = min(self._delay_ms, self._left_ms)
        self._left_ms = max(self._left_ms - self._waited_ms, 0)
        self._waited_ms = extra_ms
        return extra_ms

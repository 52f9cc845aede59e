"""The lease of this SPU by its own clock: the one place for the rules about its end.

The Streaming Controller (SC) counts an SPU as online while the SPU holds a lease, and elects other leaders when it
has ended. `ScConnection` renews it. Two rules depend on its end:

- **Sure to lead**: until `end`, no other SPU leads what this SPU leads (`Spu.is_sure_to_lead`). Handlers and group
  coordinators check this before they give a response that only the current leader may give.
- **Isolated**: some time after `last_end`, a replica that also reaches no other replicas refuses its clients, so that
  they look for another SPU (`Isolation`).

The two ends differ when the connection to the SC breaks. `end` is then in the past at once, because the SC may give the
lease to another process with the id of this SPU. `last_end` stays: before it, most likely no other leader is elected.
"""

import math


class Lease:
    __slots__ = ("end", "last_end")

    def __init__(self) -> None:
        self.end = -math.inf
        """The time until which no other SPU leads what this SPU leads."""
        self.last_end = -math.inf
        """The end of the last lease that this SPU had, even if the connection to the SC has broken since."""

    def begin(self, end: float) -> None:
        """Notes a lease with which this SPU is not sure to lead.

        That is the lease of the registration, because the specs of this connection may not have arrived yet, and each
        lease that is renewed while the SPU gives it back.
        """
        self.last_end = end

    def renew(self, end: float) -> None:
        """Notes a renewed lease. The specs that the SC has sent before it on this connection have arrived."""
        self.last_end = end
        self.end = end

    def lose(self) -> None:
        """Notes that the connection to the SC is broken, or that this SPU gives the lease back."""
        self.end = -math.inf

"""What the handlers of administrative APIs need of the SPU: a way to forward requests to the Streaming Controller."""

from typing import Protocol

from tailrace.broker.controller_link.forwarding import Forwarding


class ForwardingHost(Protocol):
    @property
    def forwarding(self) -> Forwarding:
        """Hands requests to the Streaming Controller."""

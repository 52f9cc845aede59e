"""What the handlers of administrative APIs need of the SPU: a way to forward requests to the Streaming Controller."""

from typing import Protocol

from tailrace.broker.controller_link.forwarding import Forwarding


class ForwardingHost(Protocol):
    """For requests that only the Streaming Controller can carry out."""

    @property
    def forwarding(self) -> Forwarding:
        """Hands requests to the Streaming Controller."""

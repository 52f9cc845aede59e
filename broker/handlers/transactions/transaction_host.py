"""What the handlers of transactions need of the SPU, one interface per need.

`Spu` satisfies all of these without naming them; `handlers.SpuHost` is where mypy checks that.
"""

from typing import Protocol

from tailrace.broker.transactions.markers.marker_writing import MarkerHost


class MarkerWritingHost(MarkerHost, Protocol):
    """For WriteTxnMarkers."""

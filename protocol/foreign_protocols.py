"""Recognises a peer that speaks TLS or HTTP instead of Kafka's protocol, by the first four bytes that it sends.

Kafka's protocol begins with the size of a request. The first bytes of TLS and HTTP are sizes that are never allowed:
hundreds of megabytes.
"""

from .error_codes import RemoteProtocolError

TLS = "TLS"
HTTP = "HTTP"
_HTTP_BEGINNINGS = frozenset((b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "))
"""The first bytes of a request: its method. `PRI` begins a connection of HTTP/2."""
_TLS_CONTENT_TYPES = range(20, 24)
_TLS_VERSION_MAJOR = 3


class ForeignProtocolError(RemoteProtocolError):
    """The peer speaks another protocol."""

    def __init__(self, protocol: str) -> None:
        super().__init__(f"this looks like {protocol}, not like Kafka's protocol")
        self.protocol = protocol
        """The protocol of the peer, `TLS` or `HTTP`."""


def foreign_protocol(size: int) -> str | None:
    """Returns the protocol whose first four bytes were read as `size`; None if they belong to none that is known."""
    first = size.to_bytes(4, "big", signed=True)
    if first in _HTTP_BEGINNINGS:
        return HTTP
    if first[0] in _TLS_CONTENT_TYPES and first[1] == _TLS_VERSION_MAJOR:
        return TLS
    return None


def refused_size(size: int, what: str, bytes_max: int) -> RemoteProtocolError:
    """Returns the error for a request, or another frame, whose size is not allowed. `what` names the frame."""
    protocol = foreign_protocol(size)
    if protocol is not None:
        return ForeignProtocolError(protocol)
    return RemoteProtocolError(f"{what} has {size} bytes; at most {bytes_max} are allowed")

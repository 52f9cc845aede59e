"""Tells whether clients come from outside the networks of this container, through a published port."""

import math
from typing import TYPE_CHECKING

import trio

from tailrace.runtime.files import Files

if TYPE_CHECKING:
    from .local_networks import LocalNetworks

READ_AGAIN_SECONDS = 5.0
"""How long the networks are believed to stay as they are. A container can be attached to another network while it
runs."""


class ClientOrigins:
    """The networks of this container, read when the first client comes that does not connect locally."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._networks: LocalNetworks | None = None
        self._read_again_at = -math.inf

    def is_from_outside(self, host: str) -> bool:
        """Returns whether a client with this address comes from outside."""
        if host == "::1" or host.startswith("127."):
            return False
        # Imported here because most servers on a developer's machine have only local clients.
        from .local_networks import read_local_networks

        now = trio.current_time()
        if self._networks is None or now >= self._read_again_at:
            self._networks = read_local_networks(self._files)
            self._read_again_at = now + READ_AGAIN_SECONDS
        return self._networks.is_outside(host)

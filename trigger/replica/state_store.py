"""Reads and writes the state object of one group through the Streaming Controller (SC)."""

from collections.abc import Sequence
from typing import Protocol

from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.cluster.stream_state.stream_state import GroupState, StreamRead
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.network import Address, Network


class StateConflictError(Exception):
    """The state was not written, because it has changed since it was read."""


class StateUnavailableError(Exception):
    """The state was not read, or it is unknown whether it was written. The message says why."""


class StateStore(Protocol):
    """The state object of one group. Both methods raise StateUnavailableError."""

    async def read(self) -> StreamRead:
        """Reads the state of the group."""

    async def write(self, state: GroupState, expected_version: int) -> int:
        """Replaces the state if it still has a version, and returns the new one. Raises StateConflictError."""

    def reconnect(self) -> None:
        """Uses another connection from now on, because a request on this one has failed or was given up."""


class ScStateStore:
    """The state object of one group in the store of the SC."""

    def __init__(self, network: Network, addresses: Sequence[Address], topic: str, group: str) -> None:
        """Takes the public addresses of the SC and its standbys."""
        self._topic = topic
        self._group = group
        self._client = ScClient(network, addresses)

    async def read(self) -> StreamRead:
        """Reads the state of the group. Raises StateUnavailableError."""
        try:
            return await self._client.read_stream_state(self._topic, self._group)
        except (UnreachableError, RefusedError) as error:
            raise StateUnavailableError(reason_of(error)) from error

    async def write(self, state: GroupState, expected_version: int) -> int:
        """Replaces the state. Raises StateConflictError and StateUnavailableError."""
        try:
            return await self._client.write_stream_state(self._topic, self._group, expected_version, state)
        except (UnreachableError, RefusedError) as error:
            if isinstance(error, RefusedError) and error.code == ErrorCode.INVALID_UPDATE_VERSION:
                raise StateConflictError from error
            raise StateUnavailableError(reason_of(error)) from error

    def reconnect(self) -> None:
        """Uses another connection from now on, because a request on this one has failed or was given up."""
        self._client.close()

    def close(self) -> None:
        """Closes the connection, if there is one."""
        self._client.close()

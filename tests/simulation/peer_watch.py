"""Watches the bytes between SPUs: an SPU that sends in an epoch must have promised it on its disk before.

The watch reads the network and the disk, and not the objects that should have written them. It therefore notices a
promise that was never synced.
"""

import struct
from collections.abc import Callable

from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.storage.directory.layout import promises_path
from tailrace.storage.directory.promises import PromiseKind, read_promises

from .faulty_network import SimulatedConnection
from .sent_frames import SentFrames
from .world import DATA_DIRECTORY, Machine

PEER_PORT = 9006
_START = struct.Struct(">hh16sii")
"""The beginning of each message about a replica: API, version, topic id, partition, epoch."""
_SPEAKING_IN_AN_EPOCH = frozenset(
    {InternalApiKey.SEAL, InternalApiKey.SEAL_REPLY, InternalApiKey.APPEND, InternalApiKey.APPEND_REPLY}
)

Key = tuple[bytes, int]
"""The topic id and the partition of a replica."""


class PeerWatch:
    def __init__(self, machines: dict[str, Machine], on_broken: Callable[[str], None]) -> None:
        """Prepares the watch of machines by host; it passes a sentence to `on_broken`."""
        self._machines = machines
        self._on_broken = on_broken
        self._frames = SentFrames(PEER_PORT)
        self._promises: dict[str, tuple[bytes, dict[Key, int]]] = {}
        """The promises of each host: the file at the last check, and its contents."""
        self.messages = 0

    def on_sent(self, connection: SimulatedConnection, data: bytes) -> None:
        for frame in self._frames.on_sent(connection, data):
            if len(frame) >= _START.size:
                self._look(connection.local.host, frame)

    def _look(self, host: str, message: bytes) -> None:
        api, _, topic_id, partition, epoch = _START.unpack_from(message)
        if api not in _SPEAKING_IN_AN_EPOCH:
            return
        self.messages += 1
        promised = self._promised(host).get((topic_id, partition), -1)
        if promised < epoch:
            name = InternalApiKey(api).name
            self._on_broken(f"{host} sent {name} of epoch {epoch}, but has promised {promised} on its disk")

    def _promised(self, host: str) -> dict[Key, int]:
        """Returns the promises that a new process would find after a power failure now."""
        content = self._machines[host].files.synced_content(promises_path(DATA_DIRECTORY))
        known = self._promises.get(host)
        if known is None or known[0] is not content:
            promised: dict[Key, int] = {}
            for _, said, (topic_id, partition), epoch in read_promises(content):
                key = topic_id.bytes, partition
                if said == PromiseKind.PROMISED:
                    promised[key] = max(epoch, promised.get(key, -1))
            known = self._promises[host] = content, promised
        return known[1]

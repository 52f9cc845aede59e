"""Watches the reports of leaders to the SC: each proposed live replica must have everything that was ever committed.

A report may be under way for long, and the leader may die meanwhile. So what it proposes must hold when it is sent, and
not only when the SC stores it.
"""

import struct
from collections.abc import Callable

from tailrace.protocol.codec.compile import decode
from tailrace.protocol.codec.headers import read_request_header
from tailrace.protocol.internal.report_live_replicas import ReportedPartition, ReportLiveReplicasRequest
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, InternalApiKey
from tailrace.server.private_link import REQUEST

from .faulty_network import SimulatedConnection
from .sent_frames import SentFrames

SC_PRIVATE_PORT = 9004
_KIND = struct.Struct(">bh")
"""The beginning of a frame with a request: its kind and its API."""
_KIND_BYTES = 1


class ReportWatch:
    def __init__(self, on_report: Callable[[ReportedPartition], None]) -> None:
        """Prepares the watch, which passes each reported partition to `on_report`."""
        self._on_report = on_report
        self._frames = SentFrames(SC_PRIVATE_PORT)

    def on_sent(self, connection: SimulatedConnection, data: bytes) -> None:
        for frame in self._frames.on_sent(connection, data):
            is_of_spu = connection.remote.port == SC_PRIVATE_PORT and len(frame) >= _KIND.size
            if is_of_spu and _KIND.unpack_from(frame) == (REQUEST, InternalApiKey.REPORT_LIVE_REPLICAS):
                self._look(frame)

    def _look(self, frame: bytes) -> None:
        view = memoryview(frame)
        _, version, _, _, position = read_request_header(view, _KIND_BYTES, SC_PRIVATE_APIS)
        for partition in decode(ReportLiveReplicasRequest, version, view, position).partitions:
            self._on_report(partition)

"""What SPUs tell each other beside what the replication core says: who they are, and bytes that a new leader lacks."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from tailrace.broker.replication.messages import Message
from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer


class PeerIdentity(Struct, frozen=True):
    """How an SPU introduces itself."""

    spu: SpuId
    incarnation: str
    """Of its store: another one when what it had may be gone."""
    process: str
    """Another one each time it starts."""


class FetchEntries(Struct, frozen=True):
    """A new leader lacks bytes that this store has described."""

    epoch: Epoch
    start: int
    end: int


class FetchedEntries(Struct, frozen=True):
    epoch: Epoch
    start: int


PeerMessage = Message | FetchEntries | FetchedEntries


class ReceivedBatches(Struct):
    """The records of an Append or of FetchedEntries, checked: whole batches, one after the other."""

    data: Buffer
    """Lies in the buffer of the connection, and is good until the turn ends: who needs it longer takes `kept`."""
    headers: list[BatchHeader]
    """Of all of them, in order."""

    def kept(self) -> "ReceivedBatches":
        """The same, for as long as it is wanted."""
        return ReceivedBatches(bytes(self.data), self.headers)

    def between(self, first: int, last: int) -> "ReceivedBatches":
        """From the batch with one base to that with the other; these are nearly always all."""
        headers = self.headers
        if headers[0].base_offset == first and headers[-1].base_offset == last:
            return self
        chosen = [header for header in headers if first <= header.base_offset <= last]
        begin = sum(header.size for header in headers if header.base_offset < first)
        return ReceivedBatches(memoryview(self.data)[begin : begin + sum(header.size for header in chosen)], chosen)


RecordsToSend = Buffer | Callable[[], Sequence[FileRange]]
"""Batches, or where they lie; the call is made when the connection takes them, which may be never."""

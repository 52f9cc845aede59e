"""Messages between SPUs that the replication core does not have: identities, and batches that a new leader lacks."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from tailrace.broker.replication.messages import Message
from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer


class PeerIdentity(Struct, frozen=True):
    """The identity with which an SPU introduces itself."""

    spu: SpuId
    incarnation: str
    """The store incarnation, which changes if stored data may have been lost."""
    process: str
    """The process incarnation, which changes with each start."""


class FetchEntries(Struct, frozen=True):
    """A new leader asks for the batches of entries that this store has described."""

    epoch: Epoch
    start: int
    end: int


class FetchedEntries(Struct, frozen=True):
    """The batches for a FetchEntries request."""

    epoch: Epoch
    start: int


PeerMessage = Message | FetchEntries | FetchedEntries


class ReceivedBatches(Struct):
    """The checked records of an Append or of FetchedEntries: whole batches, one after the other."""

    data: Buffer
    """The bytes of the batches. They lie in the buffer of the connection and are valid until the turn ends; `kept`
    makes a lasting copy."""
    headers: list[BatchHeader]
    """The headers of all batches, in order."""

    def kept(self) -> "ReceivedBatches":
        """Returns a copy that stays valid after the turn."""
        return ReceivedBatches(bytes(self.data), self.headers)

    def between(self, first: int, last: int) -> "ReceivedBatches":
        """Returns the batches from the one with base `first` to the one with base `last`; nearly always these are
        all."""
        headers = self.headers
        if headers[0].base_offset == first and headers[-1].base_offset == last:
            return self
        chosen = [header for header in headers if first <= header.base_offset <= last]
        begin = sum(header.size for header in headers if header.base_offset < first)
        return ReceivedBatches(memoryview(self.data)[begin : begin + sum(header.size for header in chosen)], chosen)


RecordsToSend = Buffer | Callable[[], Sequence[FileRange]]
"""Batches, or a function that reads them. It is called when the connection can take them, which may be never."""

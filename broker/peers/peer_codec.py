"""Encodes the replication core's messages for the wire, decodes them, and checks received batches.

A message does not carry the sender's identity: the sender introduced itself once. Entries are not sent beside their
batches: they are derived from the headers of the batches, after each batch was checked.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crc32c import crc32c

from tailrace.broker.replicas.replica_log import entry_of, entry_of_control
from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.epoch_starts import EpochStart
from tailrace.broker.replication.messages import Append, AppendReply, Fenced, Hello, Seal, SealReply
from tailrace.protocol.batches.control_batches import control_kind
from tailrace.protocol.batches.record_batch import CONTROL, CRC_START, LOG_OVERHEAD, BatchHeader, read_header
from tailrace.protocol.codec.primitives import Buffer, Part
from tailrace.protocol.error_codes import KafkaError, RemoteProtocolError
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.internal.append_message import AppendMessage, BegunEpoch
from tailrace.protocol.internal.append_reply_message import AppendReplyMessage
from tailrace.protocol.internal.fenced_message import FencedMessage
from tailrace.protocol.internal.fetch_entries_message import FetchEntriesMessage
from tailrace.protocol.internal.fetched_entries_message import FetchedEntriesMessage
from tailrace.protocol.internal.hello_message import HelloMessage
from tailrace.protocol.internal.seal_message import EpochBeginning, SealMessage
from tailrace.protocol.internal.seal_reply_message import DescribedEntry, SealReplyMessage
from tailrace.protocol.internal_apis import PEER_APIS, InternalApiKey
from tailrace.storage.directory.checkpoints import ReplicaKey

from .peer_frames import START_BYTES, frame, read_body, read_key, start_of
from .peer_messages import FetchedEntries, FetchEntries, PeerIdentity, PeerMessage, ReceivedBatches

_NOTHING = -1
_EVENT, _COMPACTED = EntryKind.EVENT, EntryKind.COMPACTED
_KIND_NUMBERS: Mapping[int, EntryKind] = {kind.value: kind for kind in EntryKind}


class DamagedBatchError(RemoteProtocolError):
    """A batch, or what is said about it, is corrupt. The bits flipped on a disk, because the connection has its own
    checksums."""


DecodedMessage = tuple[ReplicaKey, PeerMessage, ReceivedBatches | None]


# from the core to the wire


def encode(key: ReplicaKey, message: PeerMessage, records: Part | None = None) -> list[Part]:
    """Returns the frame of a message; `records` stands in it as given."""
    return frame(_TO_WIRE[type(message)](key, message, records))


def _append_to_wire(key: ReplicaKey, message: Append, records: Part | None) -> AppendMessage:
    return AppendMessage(
        key[0],
        key[1],
        message.epoch,
        message.base,
        message.high_watermark,
        message.log_end,
        message.log_start,
        list(message.live_replicas),
        message.stamped_end,
        [BegunEpoch(epoch, start) for epoch, start in message.epochs],
        message.high_watermark_epoch,
        message.producers,
        records,
    )


def _append_reply_to_wire(key: ReplicaKey, message: AppendReply, records: Part | None) -> AppendReplyMessage:
    return AppendReplyMessage(
        key[0],
        key[1],
        message.epoch,
        message.matched_end,
        message.log_end,
        message.high_watermark,
        message.missed,
        message.log_start,
    )


def _seal_reply_to_wire(key: ReplicaKey, message: SealReply, records: Part | None) -> SealReplyMessage:
    return SealReplyMessage(
        key[0],
        key[1],
        message.epoch,
        message.high_watermark,
        message.log_start,
        message.log_end,
        message.in_doubt,
        [
            DescribedEntry(entry.base, entry.end, entry.epoch, entry.kind.value, entry.content, entry.size)
            for entry in message.entries
        ],
        message.high_watermark_epoch,
    )


def _seal_to_wire(key: ReplicaKey, message: Seal, records: Part | None) -> SealMessage:
    entries_from = _NOTHING if message.entries_from is None else message.entries_from
    epochs = [EpochBeginning(epoch, start) for epoch, start in message.epochs]
    log_end = _NOTHING if message.log_end is None else message.log_end
    return SealMessage(key[0], key[1], message.epoch, entries_from, message.log_start, log_end, epochs)


def _hello_to_wire(key: ReplicaKey, message: Hello, records: Part | None) -> HelloMessage:
    return HelloMessage(key[0], key[1], message.epoch, message.has_failed)


def _fenced_to_wire(key: ReplicaKey, message: Fenced, records: Part | None) -> FencedMessage:
    return FencedMessage(key[0], key[1], message.promised)


def _fetch_to_wire(key: ReplicaKey, message: FetchEntries, records: Part | None) -> FetchEntriesMessage:
    return FetchEntriesMessage(key[0], key[1], message.epoch, message.start, message.end)


def _fetched_to_wire(key: ReplicaKey, message: FetchedEntries, records: Part | None) -> FetchedEntriesMessage:
    return FetchedEntriesMessage(key[0], key[1], message.epoch, message.start, records)


_TO_WIRE: Mapping[type[PeerMessage], Callable[[ReplicaKey, Any, Part | None], Any]] = {
    Append: _append_to_wire,
    AppendReply: _append_reply_to_wire,
    SealReply: _seal_reply_to_wire,
    Seal: _seal_to_wire,
    Hello: _hello_to_wire,
    Fenced: _fenced_to_wire,
    FetchEntries: _fetch_to_wire,
    FetchedEntries: _fetched_to_wire,
}


# from the wire to the core


def decode_message(received: memoryview, peer: PeerIdentity, *, from_leader: bool) -> DecodedMessage | None:
    """Decodes a frame without its size; returns None for a Ping.

    Raises RemoteProtocolError for a broken message, and for one that this side of a link does not send. Raises
    DamagedBatchError if only this message is corrupt, and its sender can be trusted otherwise.
    """
    expected = (_FROM_LEADER if from_leader else _FROM_FOLLOWER).get(bytes(received[:START_BYTES]))
    if expected is None:
        key = read_key(received)
        if key is InternalApiKey.PING:
            return None
        raise RemoteProtocolError(f"{PEER_APIS[key].name} is not expected on this side of a link")
    cls, from_wire = expected
    wire = read_body(cls, received)
    try:
        message, batches = from_wire(wire, peer)
    except DamagedBatchError as reason:
        raise DamagedBatchError(f"partition {wire.partition} of topic {wire.topic_id}: {reason}") from None
    return (wire.topic_id, wire.partition), message, batches


FromWire = Callable[[Any, PeerIdentity], tuple[PeerMessage, ReceivedBatches | None]]


def _append(wire: AppendMessage, peer: PeerIdentity) -> tuple[Append, ReceivedBatches | None]:
    epoch, base, log_end = wire.epoch, wire.base, wire.log_end
    if epoch | base | wire.high_watermark | log_end | wire.log_start | wire.stamped_end < 0:
        raise _negative("Append")
    batches = None
    entries: tuple[Entry, ...] = ()
    if wire.records:
        entries, batches = read_batches(_decoded(wire.records), epoch, base, log_end)
    live_replicas = frozenset(map(SpuId, wire.live_replicas))
    message = Append(
        Epoch(epoch),
        base,
        entries,
        wire.high_watermark,
        log_end,
        wire.log_start,
        live_replicas,
        wire.stamped_end,
        tuple(EpochStart(Epoch(begun.epoch), begun.start) for begun in wire.epochs),
        Epoch(wire.high_watermark_epoch),
        bytes(wire.producers),
    )
    return message, batches


def _append_reply(wire: AppendReplyMessage, peer: PeerIdentity) -> tuple[AppendReply, None]:
    if wire.epoch | wire.matched_end | wire.log_end | wire.high_watermark | wire.log_start < 0:
        raise _negative("AppendReply")
    return (
        AppendReply(
            Epoch(wire.epoch),
            peer.spu,
            peer.incarnation,
            wire.matched_end,
            wire.log_end,
            wire.high_watermark,
            wire.missed,
            wire.log_start,
        ),
        None,
    )


def _seal_reply(wire: SealReplyMessage, peer: PeerIdentity) -> tuple[SealReply, None]:
    if wire.epoch | wire.high_watermark | wire.log_start | wire.log_end < 0:
        raise _negative("SealReply")
    entries = tuple(_described(entry) for entry in wire.entries)
    _check_order(entries, wire.log_end)
    reply = SealReply(
        Epoch(wire.epoch),
        peer.spu,
        peer.incarnation,
        wire.high_watermark,
        wire.log_end,
        wire.in_doubt,
        entries,
        wire.log_start,
        Epoch(wire.high_watermark_epoch),
    )
    return reply, None


def _seal(wire: SealMessage, peer: PeerIdentity) -> tuple[Seal, None]:
    if wire.epoch | wire.log_start < 0:
        raise _negative("Seal")
    epochs = tuple(EpochStart(Epoch(beginning.epoch), beginning.start) for beginning in wire.epochs)
    entries_from = None if wire.entries_from < 0 else wire.entries_from
    log_end = None if wire.log_end < 0 else wire.log_end
    return Seal(Epoch(wire.epoch), entries_from, wire.log_start, log_end, epochs), None


def _hello(wire: HelloMessage, peer: PeerIdentity) -> tuple[Hello, None]:
    if wire.epoch < 0:
        raise _negative("Hello")
    return Hello(Epoch(wire.epoch), peer.spu, peer.incarnation, wire.has_failed), None


def _fenced(wire: FencedMessage, peer: PeerIdentity) -> tuple[Fenced, None]:
    if wire.promised < 0:
        raise _negative("Fenced")
    return Fenced(Epoch(wire.promised)), None


def _fetch(wire: FetchEntriesMessage, peer: PeerIdentity) -> tuple[FetchEntries, None]:
    if wire.epoch | wire.start | wire.end - wire.start < 0:
        raise _negative("FetchEntries")
    return FetchEntries(Epoch(wire.epoch), wire.start, wire.end), None


def _fetched(wire: FetchedEntriesMessage, peer: PeerIdentity) -> tuple[FetchedEntries, ReceivedBatches | None]:
    if wire.epoch | wire.start < 0:
        raise _negative("FetchedEntries")
    batches = read_batches(_decoded(wire.records), wire.epoch, wire.start, None)[1] if wire.records else None
    return FetchedEntries(Epoch(wire.epoch), wire.start), batches


def _by_start(*readers: tuple[type[Any], FromWire]) -> Mapping[bytes, tuple[type[Any], FromWire]]:
    """Maps the first bytes of a frame, which have to be known before its body can be read, to class and decoder."""
    return {start_of(cls): (cls, from_wire) for cls, from_wire in readers}


_FROM_LEADER = _by_start(
    (SealMessage, _seal),
    (AppendMessage, _append),
    (FencedMessage, _fenced),
    (FetchEntriesMessage, _fetch),
)
_FROM_FOLLOWER = _by_start(
    (HelloMessage, _hello),
    (SealReplyMessage, _seal_reply),
    (AppendReplyMessage, _append_reply),
    (FencedMessage, _fenced),
    (FetchedEntriesMessage, _fetched),
)


# checks


def read_batches(
    records: Buffer, epoch: int, start: int, log_end: int | None
) -> tuple[tuple[Entry, ...], ReceivedBatches]:
    """Checks batches and returns their entries: complete, in order, beyond `start`, and not of a later epoch."""
    position, stop = 0, len(records)
    entries: list[Entry] = []
    headers: list[BatchHeader] = []
    previous_end = 0
    end = start
    while position < stop:
        try:
            header = read_header(records, position)
        except KafkaError as reason:
            raise DamagedBatchError(str(reason)) from None
        size = header.batch_length + LOG_OVERHEAD
        base = header.base_offset
        end = base + header.last_offset_delta + 1
        following = position + size
        if following > stop:
            raise DamagedBatchError(f"the batch at offset {base} is truncated")
        if crc32c(records[position + CRC_START : following]) != header.crc:
            raise DamagedBatchError(f"the batch at offset {base} does not match its checksum")
        if not previous_end <= base < end > start:
            # No checksum of a batch covers its offset or its epoch.
            raise DamagedBatchError(f"a batch from {base} to {end} does not continue after {start}")
        if not 0 <= header.leader_epoch <= epoch:
            raise DamagedBatchError(
                f"the batch at offset {base} has epoch {header.leader_epoch}, but was sent in epoch {epoch}"
            )
        if header.attributes & CONTROL:
            kind = control_kind(header, records, position)
            entry = entry_of(header) if kind is None else entry_of_control(header, kind, records, position)
        else:  # the same as `entry_of`, with values that are known already
            is_whole = header.record_count == end - base
            entry = Entry(base, end, header.leader_epoch, header.crc, _EVENT if is_whole else _COMPACTED, size)
        entries.append(entry)
        headers.append(header)
        previous_end = end
        position = following
    if log_end is not None and end > log_end:
        raise DamagedBatchError(f"batches up to {end} of a log that ends at {log_end}")
    return tuple(entries), ReceivedBatches(records, headers)


def _decoded(records: Part) -> memoryview:
    assert isinstance(records, memoryview), "decoded records lie in the received bytes"
    return records


def _described(wire: DescribedEntry) -> Entry:
    kind = _KIND_NUMBERS.get(wire.kind)
    if kind is None:
        raise RemoteProtocolError(f"unknown entry kind {wire.kind}")
    return Entry(wire.base, wire.end, Epoch(wire.epoch), wire.content, kind, wire.size)


def _check_order(entries: Sequence[Entry], log_end: int) -> None:
    end = 0
    for entry in entries:
        if not end <= entry.base < entry.end <= log_end or entry.size <= 0:
            raise DamagedBatchError(f"an entry from {entry.base} to {entry.end} of {entry.size} bytes is out of place")
        end = entry.end


def _negative(name: str) -> RemoteProtocolError:
    """Returns an error for numbers that were joined with `|`: the result is negative if one of them is."""
    return RemoteProtocolError(f"{name} has a negative number")

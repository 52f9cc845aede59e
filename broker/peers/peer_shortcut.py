"""A shortcut for the messages of each replicated batch: encodes and decodes them from bytes that repeat.

For one replica, most bytes of these messages are always the same, except a few numbers and the records. The shortcut
learns the constant bytes from a message that `peer_codec` has handled, and then makes no wire object, which is the
largest part of the cost. All unusual messages, such as signs of life and broken messages, go through `peer_codec`: the
shortcut decides nothing.
"""

import struct
from typing import Any

from tailrace.broker.replication.messages import Append, AppendReply
from tailrace.protocol.codec.primitives import Buffer, read_uvarint, uvarint
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import Epoch
from tailrace.storage.directory.checkpoints import ReplicaKey

from .peer_codec import DecodedMessage, decode_message, encode, read_batches
from .peer_messages import PeerIdentity, PeerMessage

LEARNED_MAX = 1000
"""How many replicas are learned. If more are busy on one link, most of their messages go through `peer_codec`."""

COPIED_BYTES_MAX = 16 * 1024
"""Up to this size, a received frame is copied: taking slices of a copy costs less than half."""

_SIZE = struct.Struct(">i")
_START_BYTES = 28
"""The length of the constant start of a frame without its size: kind, version, topic, partition and epoch."""
_NUMBERS = struct.Struct(">4q")
"""Base, high watermark, log end and log start."""
_NUMBERS_END = _START_BYTES + _NUMBERS.size
_APPEND_START = struct.Struct(f">i{_START_BYTES}s4q")
_REPLY_NUMBERS = struct.Struct(">3q?qB")
"""Matched end, log end, high watermark, missed, log start, and the number of tagged fields."""
_REPLY_BYTES = _START_BYTES + _REPLY_NUMBERS.size
"""The length of an ordinary reply without its size."""
_REPLY = struct.Struct(f">i{_START_BYTES}s3q?q1s")
_NO_TAGS = bytes(1)


class PeerShortcut:
    """The learned messages of one link, in both directions."""

    __slots__ = ("_appends", "_from_leader", "_patterns", "_peer", "_replies")

    def __init__(self, peer: PeerIdentity, *, from_leader: bool) -> None:
        self._peer = peer
        self._from_leader = from_leader
        self._patterns: dict[bytes, _AppendPattern | _ReplyPattern] = {}
        """Patterns of received messages by the start of their frames."""
        self._appends: dict[ReplicaKey, _AppendTemplate] = {}
        self._replies: dict[ReplicaKey, _ReplyTemplate] = {}

    # sending

    def reply(self, key: ReplicaKey, message: AppendReply) -> bytes:
        """Returns the whole frame of a reply."""
        template = self._replies.get(key)
        if template is not None and template.epoch == message.epoch:
            return template.frame(message)
        encoded = _encoded(key, message)
        template = _ReplyTemplate(message.epoch, encoded)
        if template.frame(message) == encoded:
            _store(self._replies, key, template)
        return encoded

    def append(self, key: ReplicaKey, message: Append, records: bytes) -> bytes:
        """Returns the whole frame of an Append."""
        template = self._appends.get(key)
        if template is not None and template.epoch == message.epoch and template.rest == _stable_fields(message):
            return template.frame(message, records)
        encoded = _encoded(key, message, records)
        template = _AppendTemplate(message, records, encoded)
        if template.frame(message, records) == encoded:
            _store(self._appends, key, template)
        return encoded

    # receiving

    def decode_message(self, received: memoryview) -> DecodedMessage | None:
        """Decodes a frame without its size, with the same result as `peer_codec.decode_message`."""
        start = received[:_START_BYTES].tobytes()
        pattern = self._patterns.get(start)
        if pattern is None:
            decoded = None
        else:
            decoded = pattern.decode(received.tobytes() if len(received) <= COPIED_BYTES_MAX else received)
        if decoded is None:
            decoded = decode_message(received, self._peer, from_leader=self._from_leader)
            if decoded is not None:
                self._learn(start, received, decoded)
        return decoded

    def _learn(self, start: bytes, received: memoryview, decoded: DecodedMessage) -> None:
        key, message, batches = decoded
        pattern: _AppendPattern | _ReplyPattern
        if type(message) is AppendReply:
            pattern = _ReplyPattern(key, message.epoch, self._peer)
        elif type(message) is Append and batches is not None:
            pattern = _AppendPattern(key, message, received, len(batches.data))
        else:
            return
        if pattern.decode(received) == decoded:
            _store(self._patterns, start, pattern)


class _ReplyTemplate:
    """Encodes the replies of one replica."""

    __slots__ = ("_size", "_start", "epoch")

    def __init__(self, epoch: Epoch, encoded: bytes) -> None:
        self.epoch = epoch
        self._size = len(encoded) - _SIZE.size
        self._start = encoded[_SIZE.size : _SIZE.size + _START_BYTES]

    def frame(self, message: AppendReply) -> bytes:
        return _REPLY.pack(
            self._size,
            self._start,
            message.matched_end,
            message.log_end,
            message.high_watermark,
            message.missed,
            message.log_start,
            _NO_TAGS,
        )


class _AppendTemplate:
    """Encodes the Appends of one replica."""

    __slots__ = ("_middle", "_start", "epoch", "rest")

    def __init__(self, message: Append, records: bytes, encoded: bytes) -> None:
        self.epoch = message.epoch
        self.rest: tuple[Any, ...] = _stable_fields(message)
        self._start = encoded[_SIZE.size : _SIZE.size + _START_BYTES]
        records_bytes = len(uvarint(len(records) + 1)) + len(records) + len(_NO_TAGS)
        self._middle = encoded[_SIZE.size + _NUMBERS_END : len(encoded) - records_bytes]

    def frame(self, message: Append, records: bytes) -> bytes:
        middle, records_size = self._middle, uvarint(len(records) + 1)
        size = _NUMBERS_END + len(middle) + len(records_size) + len(records) + len(_NO_TAGS)
        numbers = message.base, message.high_watermark, message.log_end, message.log_start
        start = _APPEND_START.pack(size, self._start, *numbers)
        return b"".join((start, middle, records_size, records, _NO_TAGS))


class _ReplyPattern:
    """Decodes the replies of one replica."""

    __slots__ = ("_epoch", "_incarnation", "_key", "_spu")

    def __init__(self, key: ReplicaKey, epoch: Epoch, peer: PeerIdentity) -> None:
        self._key = key
        self._epoch = epoch
        self._spu, self._incarnation = peer.spu, peer.incarnation

    def decode(self, received: Buffer) -> DecodedMessage | None:
        """Returns None if the frame is not an ordinary reply."""
        if len(received) != _REPLY_BYTES:
            return None
        matched_end, log_end, high_watermark, missed, log_start, tags = _REPLY_NUMBERS.unpack_from(
            received, _START_BYTES
        )
        if tags or matched_end | log_end | high_watermark | log_start < 0:
            return None
        epoch, spu, incarnation = self._epoch, self._spu, self._incarnation
        reply = AppendReply(epoch, spu, incarnation, matched_end, log_end, high_watermark, missed, log_start)
        return self._key, reply, None


class _AppendPattern:
    """Decodes the Appends of one replica."""

    __slots__ = ("_epoch", "_key", "_middle", "_middle_end", "_rest")

    def __init__(self, key: ReplicaKey, message: Append, received: memoryview, records_bytes: int) -> None:
        self._key = key
        self._epoch = message.epoch
        self._rest: tuple[Any, ...] = _stable_fields(message)
        self._middle_end = len(received) - len(_NO_TAGS) - records_bytes - len(uvarint(records_bytes + 1))
        self._middle = received[_NUMBERS_END : self._middle_end].tobytes()

    def decode(self, received: Buffer) -> DecodedMessage | None:
        """Returns None if the frame is not an ordinary Append, or its records cannot be trusted."""
        if received[_NUMBERS_END : self._middle_end] != self._middle:
            return None
        try:
            size_and_one, position = read_uvarint(received, self._middle_end)
            stop = position + size_and_one - 1
            if stop <= position or stop + 1 != len(received) or received[stop]:  # without tagged fields
                return None
            base, high_watermark, log_end, log_start = _NUMBERS.unpack_from(received, _START_BYTES)
            if base | high_watermark | log_end | log_start < 0:
                return None
            entries, batches = read_batches(received[position:stop], self._epoch, base, log_end)
        except (IndexError, RemoteProtocolError):
            return None
        message = Append(self._epoch, base, entries, high_watermark, log_end, log_start, *self._rest)
        return self._key, message, batches


def _stable_fields(message: Append) -> tuple[Any, ...]:
    """Returns the last fields of an Append, which hardly ever change within an epoch."""
    return message.live_replicas, message.stamped_end, message.epochs, message.high_watermark_epoch, message.producers


def _encoded(key: ReplicaKey, message: PeerMessage, records: bytes | None = None) -> bytes:
    return b"".join(part for part in encode(key, message, records) if isinstance(part, bytes))


def _store(learned: dict[Any, Any], key: object, usual: object) -> None:
    if len(learned) >= LEARNED_MAX:
        learned.clear()
    learned[key] = usual

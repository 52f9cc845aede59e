from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from batch_samples import make_batch
from msgspec.structs import replace
from peers import KEY, append, append_reply, identity

from tailrace.broker.peers import peer_codec, peer_shortcut
from tailrace.broker.peers.peer_messages import PeerMessage
from tailrace.broker.peers.peer_shortcut import PeerShortcut
from tailrace.broker.replicas.replica_log import entry_of
from tailrace.broker.replication.epoch_starts import EpochStart
from tailrace.broker.replication.messages import Append, AppendReply
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.storage.directory.checkpoints import ReplicaKey

LEADER, FOLLOWER = identity(1), identity(2)
OTHER = (UUID(int=8), 0)


def _ordinary(key: ReplicaKey, message: PeerMessage, records: bytes | None = None) -> bytes:
    return b"".join(peer_codec.encode(key, message, records))  # type: ignore[arg-type]


def _told(base: int, *sizes: int, **changes: Any) -> tuple[Append, bytes]:
    """Returns an Append of batches with these sizes, and the batches."""
    batches = [make_batch(base + index, size=size) for index, size in enumerate(sizes)]
    entries = tuple(entry_of(read_header(batch)) for batch in batches)
    return replace(append(base, entries, epoch=4, log_end=1000), **changes), b"".join(batches)


APPENDS = [
    _told(5, 70),
    _told(6, 71),
    _told(7, 126, 100),
    _told(9, 20_000),
    _told(10, 127, high_watermark=10, log_end=700),
    _told(11, 128, log_start=8),
    _told(12, 70, live_replicas=frozenset({SpuId(1)})),
    _told(13, 70, live_replicas=frozenset({SpuId(1)}), stamped_end=99, epochs=(EpochStart(Epoch(3), 13),)),
    _told(13, 70, live_replicas=frozenset({SpuId(1)}), stamped_end=3),
    _told(14, 70, high_watermark_epoch=Epoch(3)),
    _told(14, 70, high_watermark_epoch=Epoch(2)),
    _told(15, 70, epoch=Epoch(5), high_watermark_epoch=Epoch(2)),
    _told(15, 70, epoch=Epoch(5)),
    _told(16, 70, epoch=Epoch(5)),
    _told(17, 70, epoch=Epoch(5), producers=b"who had appended"),
    _told(18, 70, epoch=Epoch(5)),
]
REPLIES = [
    append_reply(2, 9, epoch=4),
    append_reply(2, 10, epoch=4, missed=True),
    replace(append_reply(2, 11, epoch=4), log_end=70, high_watermark=11, log_start=3),
    append_reply(2, 12, epoch=5),
    append_reply(2, 13, epoch=5),
]


def test_encoded_bytes_equal_those_of_the_codec() -> None:
    shortcut = PeerShortcut(FOLLOWER, from_leader=False)
    for key in (KEY, OTHER):
        for message, records in APPENDS:
            assert shortcut.append(key, message, records) == _ordinary(key, message, records)
        for reply in REPLIES:
            assert shortcut.reply(key, reply) == _ordinary(key, reply)


def test_decoded_messages_equal_those_of_the_codec() -> None:
    shortcut = PeerShortcut(LEADER, from_leader=True)
    for key in (KEY, OTHER):
        for message, records in [*APPENDS, (append(20, epoch=5), None), _told(17, 70, epoch=Epoch(5))]:
            received = memoryview(_ordinary(key, message, records))[4:]
            told = shortcut.decode_message(received)
            assert told == peer_codec.decode_message(received, LEADER, from_leader=True)
            assert told is not None and told[:2] == (key, message)
    shortcut = PeerShortcut(FOLLOWER, from_leader=False)
    for reply in REPLIES:
        assert shortcut.decode_message(memoryview(_ordinary(KEY, reply))[4:]) == (KEY, reply, None)


def _never(*_: object, **__: object) -> None:
    raise AssertionError("the ordinary way")


def test_learned_messages_bypass_the_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    to_follower, to_leader = PeerShortcut(FOLLOWER, from_leader=False), PeerShortcut(LEADER, from_leader=True)

    def exchange(told: tuple[Append, bytes], reply: AppendReply) -> None:
        heard = to_leader.decode_message(memoryview(to_follower.append(KEY, *told))[4:])
        assert heard is not None and heard[1] == told[0]
        assert to_follower.decode_message(memoryview(to_leader.reply(KEY, reply))[4:]) == (KEY, reply, None)

    exchange(APPENDS[0], REPLIES[0])
    monkeypatch.setattr(peer_shortcut, "encode", _never)
    monkeypatch.setattr(peer_shortcut, "decode_message", _never)
    for told in APPENDS[1:6]:
        exchange(told, REPLIES[1])
    with pytest.raises(AssertionError, match="the ordinary way"):
        exchange(APPENDS[6], REPLIES[1])


def _cut(frame: bytearray) -> None:
    del frame[-9:]


def _tagged(frame: bytearray) -> None:
    frame[-1:] = b"\x01\x05\x00"


def _negative(frame: bytearray) -> None:
    frame[28] |= 0x80


def _flipped(frame: bytearray) -> None:
    frame[-3] ^= 1


@pytest.mark.parametrize("spoil", [_cut, _tagged, _negative, _flipped])
def test_unusual_messages_go_through_the_codec(spoil: Callable[[bytearray], None]) -> None:
    def outcome(decode: Callable[[memoryview], peer_codec.DecodedMessage | None]) -> object:
        try:
            return decode(memoryview(spoilt))
        except RemoteProtocolError as error:
            return type(error), str(error)

    told = (LEADER, True, _ordinary(KEY, *APPENDS[1])), (FOLLOWER, False, _ordinary(KEY, REPLIES[1]))
    for peer, from_leader, frame in told:
        shortcut = PeerShortcut(peer, from_leader=from_leader)
        shortcut.decode_message(memoryview(frame)[4:])
        spoilt = bytearray(frame[4:])
        spoil(spoilt)
        ordinary = outcome(partial(peer_codec.decode_message, peer=peer, from_leader=from_leader))
        assert outcome(shortcut.decode_message) == ordinary


def test_little_is_kept_however_many_replicas_are_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_shortcut, "LEARNED_MAX", 3)
    shortcut = PeerShortcut(FOLLOWER, from_leader=False)
    for number in range(10):
        key = UUID(int=number), 0
        for _ in range(2):
            assert shortcut.append(key, *APPENDS[0]) == _ordinary(key, *APPENDS[0])
            assert shortcut.decode_message(memoryview(_ordinary(key, REPLIES[0]))[4:]) == (key, REPLIES[0], None)
        assert len(shortcut._appends) <= 3 and len(shortcut._patterns) <= 3

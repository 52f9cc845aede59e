from random import Random
from uuid import UUID

import pytest
from batch_samples import make_batch
from msgspec.structs import replace
from peers import KEY, append, append_reply, identity

from tailrace.broker.peers.peer_codec import DamagedBatchError, decode_message, encode
from tailrace.broker.peers.peer_frames import frame
from tailrace.broker.peers.peer_messages import FetchedEntries, FetchEntries, PeerMessage
from tailrace.broker.replicas.replica_log import entry_of, entry_of_control
from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.epoch_starts import EpochStart
from tailrace.broker.replication.messages import Append, Fenced, Hello, Seal, SealReply
from tailrace.protocol.batches.control_batches import bridge, control_kind, hole
from tailrace.protocol.batches.record_batch import read_header, stamp_crc, write_header
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.internal.ping_message import PingMessage

FOLLOWER = identity(2)
EPOCH = Epoch(4)


def _frame(message: PeerMessage, records: bytes | bytearray | None = None) -> memoryview:
    parts: list[bytes] = encode(KEY, message, records)  # type: ignore[assignment]
    return memoryview(b"".join(parts))[4:]


def _entry(batch: bytes | bytearray) -> Entry:
    """Returns the entry as a store that has it in its log sees it."""
    header = read_header(batch)
    kind = control_kind(header, batch)
    return entry_of(header) if kind is None else entry_of_control(header, kind, batch)


FROM_FOLLOWER: list[PeerMessage] = [
    Hello(EPOCH, FOLLOWER.spu, FOLLOWER.incarnation),
    append_reply(2, 9, missed=True),
    SealReply(
        EPOCH, FOLLOWER.spu, FOLLOWER.incarnation, 5, 100, True,
        (
            Entry(5, 9, Epoch(3), 0xFFFF_FFFF, EntryKind.EVENT, 77),
            Entry(20, 30, EPOCH, 1, EntryKind.HOLE, 80),
            Entry(30, 31, EPOCH, 2, EntryKind.BRIDGE, 81),
        ),
        high_watermark_epoch=Epoch(3),
    ),
    Fenced(EPOCH),
]  # fmt: skip
FROM_LEADER: list[PeerMessage] = [
    append(9),
    replace(
        append(9),
        high_watermark_epoch=Epoch(3),
        stamped_end=7,
        epochs=(EpochStart(Epoch(1), 2), EpochStart(Epoch(3), 5)),
    ),
    Seal(EPOCH, None),
    Seal(EPOCH, 0),
    Fenced(EPOCH),
    FetchEntries(EPOCH, 3, 8),
]


def _name(message: PeerMessage) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", FROM_FOLLOWER, ids=_name)
def test_messages_of_a_follower_are_decoded_as_they_were_sent(message: PeerMessage) -> None:
    assert decode_message(_frame(message), FOLLOWER, from_leader=False) == (KEY, message, None)


@pytest.mark.parametrize("message", FROM_LEADER, ids=_name)
def test_messages_of_a_leader_are_decoded_as_they_were_sent(message: PeerMessage) -> None:
    assert decode_message(_frame(message), identity(1), from_leader=True) == (KEY, message, None)


@pytest.mark.parametrize("message", [message for message in FROM_FOLLOWER if type(message) is not Fenced], ids=_name)
def test_a_leader_must_not_send_a_followers_messages(message: PeerMessage) -> None:
    with pytest.raises(RemoteProtocolError, match="is not expected"):
        decode_message(_frame(message), FOLLOWER, from_leader=True)


@pytest.mark.parametrize("message", [message for message in FROM_LEADER if type(message) is not Fenced], ids=_name)
def test_a_follower_must_not_send_a_leaders_messages(message: PeerMessage) -> None:
    with pytest.raises(RemoteProtocolError, match="is not expected"):
        decode_message(_frame(message), FOLLOWER, from_leader=False)


def test_that_a_peer_is_there_says_nothing_more() -> None:
    parts: list[bytes] = frame(PingMessage())  # type: ignore[assignment]
    assert decode_message(memoryview(b"".join(parts))[4:], FOLLOWER, from_leader=False) is None


# records


def _compacted(batch: bytearray) -> bytearray:
    """Returns a batch that compaction leaves if it removes all records but the last."""
    header = read_header(batch)
    header.record_count = 1
    write_header(batch, header)
    stamp_crc(batch, 0, len(batch))
    return batch


def test_entries_are_derived_from_the_batches() -> None:
    batches = [
        make_batch(0, 3, size=100, epoch=2),
        hole(5, 9, 4),  # compaction may have removed what was between
        bridge(9, 4),
        make_batch(10, 1, size=5000, epoch=4),
        _compacted(make_batch(11, 3, epoch=4)),
    ]
    entries = tuple(map(_entry, batches))
    assert [entry.kind.name for entry in entries] == ["EVENT", "HOLE", "BRIDGE", "EVENT", "COMPACTED"]
    told = append(2, entries, epoch=4, log_end=14)
    records = b"".join(batches)
    key, message, received = decode_message(_frame(told, records), identity(1), from_leader=True) or (None, None, None)
    assert (key, message) == (KEY, told)
    assert received is not None
    assert (received.data, received.headers) == (records, [read_header(batch) for batch in batches])


def test_fetched_batches_are_checked_as_well() -> None:
    batch = make_batch(7, 2, epoch=3)
    told = FetchedEntries(EPOCH, 7)
    _, message, received = decode_message(_frame(told, batch), FOLLOWER, from_leader=False) or (None, None, None)
    assert message == told
    assert received is not None
    assert received.data == batch
    batch[-1] ^= 1
    with pytest.raises(RemoteProtocolError, match="checksum"):
        decode_message(_frame(told, batch), FOLLOWER, from_leader=False)


def _refused(told: Append, records: bytes | bytearray) -> str:
    """Only the message is refused, and not its sender: bits may have flipped on a disk."""
    with pytest.raises(DamagedBatchError) as refused:
        decode_message(_frame(told, records), identity(1), from_leader=True)
    return str(refused.value)


def test_bad_batches_are_refused() -> None:
    good = make_batch(5, 2, epoch=1)
    told = append(5, (_entry(good),), log_end=7)
    flipped = bytearray(good)
    flipped[80] ^= 1
    assert "checksum" in _refused(told, flipped)
    assert "truncated" in _refused(told, good[:-1])
    assert "truncated" in _refused(told, good + good[:20])
    assert "does not continue" in _refused(told, good + good)
    assert "does not continue" in _refused(append(7), good)
    assert "log that ends at 6" in _refused(append(5, log_end=6), good)
    assert "epoch 1, but was sent in epoch 0" in _refused(append(5, epoch=0), good)
    assert "epoch -1, but was sent in epoch 1" in _refused(told, make_batch(5, 2, epoch=-1))
    assert "magic" in _refused(told, good[:16] + b"\x01" + good[17:])


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="Append has a negative number"):
        decode_message(_frame(append(-1)), identity(1), from_leader=True)
    with pytest.raises(RemoteProtocolError, match="AppendReply has a negative number"):
        decode_message(_frame(append_reply(2, -5)), FOLLOWER, from_leader=False)
    with pytest.raises(RemoteProtocolError, match="FetchEntries has a negative number"):
        decode_message(_frame(FetchEntries(EPOCH, 5, 3)), identity(1), from_leader=True)


@pytest.mark.parametrize(
    "entries",
    [
        (Entry(5, 5, EPOCH),),
        (Entry(5, 7, EPOCH), Entry(6, 8, EPOCH)),
        (Entry(5, 101, EPOCH),),
        (Entry(5, 6, EPOCH, size=0),),
    ],
)
def test_descriptions_out_of_place_are_refused(entries: tuple[Entry, ...]) -> None:
    reply = SealReply(EPOCH, FOLLOWER.spu, FOLLOWER.incarnation, 5, 100, False, entries)
    with pytest.raises(DamagedBatchError, match="out of place"):
        decode_message(_frame(reply), FOLLOWER, from_leader=False)


def test_noise_is_refused_and_nothing_else() -> None:
    random = Random(1)
    frames = [bytes(_frame(message)) for message in FROM_FOLLOWER]
    frames.append(bytes(_frame(FetchedEntries(EPOCH, 0), make_batch(0, 3))))
    for _ in range(2000):
        noisy = bytearray(random.choice(frames))
        for _ in range(random.randrange(1, 4)):
            noisy[random.randrange(4, len(noisy))] = random.randrange(256)
        cut = memoryview(noisy)[: random.randrange(4, len(noisy) + 1)]
        try:
            told = decode_message(cut, FOLLOWER, from_leader=False)
        except RemoteProtocolError:
            continue
        assert told is not None
        (topic_id, partition), _, _ = told
        assert isinstance(topic_id, UUID)
        assert isinstance(partition, int)


def test_the_follower_is_known_from_its_introduction() -> None:
    told = decode_message(_frame(Hello(EPOCH, SpuId(99), "somebody else")), FOLLOWER, from_leader=False)
    assert told == (KEY, Hello(EPOCH, FOLLOWER.spu, FOLLOWER.incarnation), None)

from uuid import UUID

import pytest
from peers import KEY, append, append_reply

from tailrace.broker.peers.peer_messages import FetchedEntries, FetchEntries, PeerMessage
from tailrace.broker.peers.peer_queue import PeerQueue
from tailrace.broker.replication.entries import Entry
from tailrace.broker.replication.messages import Fenced, Hello, Seal, SealReply
from tailrace.protocol.ids import Epoch, SpuId

OTHER = (UUID(int=8), 0)
EPOCH = Epoch(1)
ENTRY = (Entry(0, 1, EPOCH),)


def _told(queue: PeerQueue) -> list[PeerMessage]:
    told = []
    while queue:
        told.append(queue.take()[1])
    return told


def _queued(*messages: PeerMessage) -> list[PeerMessage]:
    queue = PeerQueue()
    for message in messages:
        queue.add(KEY, message, None)
    return _told(queue)


def test_replicas_take_turns() -> None:
    queue = PeerQueue()
    far_behind = [append(base, ENTRY) for base in range(5)]
    for message in far_behind:
        queue.add(KEY, message, b"")
    nearly_there = append(7, ENTRY)
    queue.add(OTHER, nearly_there, b"")
    assert _told(queue) == [far_behind[0], nearly_there, *far_behind[1:]]


def test_each_message_keeps_its_records() -> None:
    queue = PeerQueue()
    queue.add(KEY, append(0, ENTRY), b"first")
    queue.add(KEY, append(1, ENTRY), b"second")
    assert [queue.take()[2], queue.take()[2]] == [b"first", b"second"]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (append_reply(2, 1), append_reply(2, 2)),
        (append_reply(2, 1), append_reply(2, 2, missed=True)),
        (append_reply(2, 1, missed=True), append_reply(2, 2, epoch=2)),
        (append(0), append(3)),
        (append(3), append(3, ENTRY)),
        (Hello(EPOCH, SpuId(2), "x"), Hello(Epoch(2), SpuId(2), "x")),
        (Seal(EPOCH, None), Seal(Epoch(2), 5)),
        (SealReply(EPOCH, SpuId(2), "x", 0, 1, False), SealReply(EPOCH, SpuId(2), "x", 0, 2, False)),
        (Fenced(EPOCH), Fenced(Epoch(2))),
    ],
    ids=lambda message: type(message).__name__,
)
def test_the_newest_stands_for_both(earlier: PeerMessage, later: PeerMessage) -> None:
    assert _queued(earlier, later) == [later]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (append(0, ENTRY), append(1, ENTRY)),
        (append(0, ENTRY), append(1)),
        (append(0), Fenced(EPOCH)),
        (FetchEntries(EPOCH, 0, 1), FetchEntries(EPOCH, 5, 6)),
        (FetchedEntries(EPOCH, 0), FetchedEntries(EPOCH, 5)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_both_are_worth_hearing(earlier: PeerMessage, later: PeerMessage) -> None:
    assert _queued(earlier, later) == [earlier, later]


def test_a_replaced_reply_keeps_that_something_was_missed() -> None:
    assert _queued(append_reply(2, 1, missed=True), append_reply(2, 2)) == [append_reply(2, 2, missed=True)]


def test_other_replicas_are_not_mixed_up() -> None:
    queue = PeerQueue()
    queue.add(KEY, append_reply(2, 1), None)
    queue.add(OTHER, append_reply(2, 5), None)
    assert len(_told(queue)) == 2


def test_forgotten_messages_are_not_taken() -> None:
    queue = PeerQueue()
    queue.add(KEY, append(0, ENTRY), b"")
    queue.add(OTHER, append(1), None)
    queue.forget(KEY)
    queue.forget((UUID(int=9), 9))
    assert _told(queue) == [append(1)]
    queue.add(KEY, append(2), None)
    assert _told(queue) == [append(2)]


def test_a_forgotten_only_message_is_not_taken() -> None:
    queue = PeerQueue()
    queue.add(KEY, append(0, ENTRY), b"")
    queue.forget(OTHER)
    assert queue
    queue.forget(KEY)
    assert not queue
    assert queue.take_only() is None


def test_messages_are_taken_in_order() -> None:
    queue = PeerQueue()
    queue.add(KEY, append(0), None)
    queue.add(OTHER, append(1), None)
    queue.take()
    queue.add(KEY, append(2), None)
    assert _told(queue) == [append(1), append(2)]


def test_it_knows_when_it_holds_one() -> None:
    queue = PeerQueue()
    assert queue.take_only() is None
    queue.add(KEY, append(0, ENTRY), b"")
    assert queue.take_only() == (KEY, append(0, ENTRY), b"")
    assert not queue
    queue.add(KEY, append(1, ENTRY), b"")
    queue.add(KEY, append(2, ENTRY), b"")
    assert queue.take_only() is None
    queue.take()
    queue.add(OTHER, append(0, ENTRY), b"")
    assert queue.take_only() is None
    assert len(_told(queue)) == 2
    queue.add(KEY, append_reply(2, 1), None)
    queue.add(KEY, append_reply(2, 2), None)
    assert queue.take_only() == (KEY, append_reply(2, 2), None)

from tailrace.broker.replication.entries import Entry
from tailrace.broker.replication.messages import SealReply
from tailrace.broker.replication.policy import QuorumPolicy
from tailrace.broker.replication.sealing import Promise, Sealing
from tailrace.protocol.ids import Epoch, SpuId


def _reply(spu: int, *, in_doubt: bool = False, high_watermark: int = 0, end: int = 0) -> SealReply:
    entries = (Entry(0, end, Epoch(1)),) if end else ()
    return SealReply(Epoch(2), SpuId(spu), f"{spu}.1", high_watermark, end, in_doubt, entries)


def test_a_promise_refuses_earlier_epochs_only() -> None:
    promise = Promise(Epoch(3))
    assert promise.refuses(Epoch(2))
    assert not promise.refuses(Epoch(3)) and not promise.refuses(Epoch(4))


def test_only_a_new_promise_has_to_be_stored() -> None:
    promise = Promise(Epoch(3))
    assert not promise.renew(Epoch(3))
    assert promise.renew(Epoch(4))
    assert promise.refuses(Epoch(3))


def test_enough_answers_complete_it() -> None:
    sealing = Sealing(QuorumPolicy(3, 2, 2))
    sealing.add(_reply(1))
    assert not sealing.is_complete
    sealing.add(_reply(2, high_watermark=4, end=6))
    assert sealing.is_complete
    assert sealing.replies[SpuId(2)].entries == (Entry(0, 6, Epoch(1)),)


def test_an_answer_that_is_forgotten_does_not_count() -> None:
    sealing = Sealing(QuorumPolicy(3, 2, 2))
    sealing.add(_reply(1))
    sealing.add(_reply(2))
    sealing.forget(SpuId(2))
    assert not sealing.is_complete


def test_one_store_counts_once() -> None:
    sealing = Sealing(QuorumPolicy(3, 2, 2))
    sealing.add(_reply(1))
    sealing.add(_reply(1))
    assert not sealing.is_complete


def test_a_store_that_has_restarted_uncleanly_since_is_in_doubt() -> None:
    sealing = Sealing(QuorumPolicy(3, 2, 2))
    sealing.add(_reply(2))
    sealing.add(_reply(2, in_doubt=True))
    sealing.add(_reply(1))
    assert not sealing.is_complete
    sealing.add(_reply(3))
    assert sealing.is_complete

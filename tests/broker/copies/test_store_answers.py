"""Conversion of ReadStore responses."""

import pytest
from spus import batch

from tailrace.broker.copies.store_answers import batches_of, store_answer
from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.policy import CopySet as PolicyCopySet
from tailrace.broker.replication.policy import CopySetsPolicy, LivePolicy, QuorumPolicy
from tailrace.broker.replication.quorum_read import Membership, StoreAnswer
from tailrace.protocol.batches.control_batches import bridge, hole
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.internal.read_store import CopySet, ReadStoreResponse

A, B, C = map(SpuId, (1, 2, 3))


def _response(records: bytes = b"", policy: str = "live", copy_sets: list[CopySet] | None = None) -> ReadStoreResponse:
    return ReadStoreResponse(
        promised=5,
        in_doubt=True,
        high_watermark=1,
        log_start=0,
        log_end=9,
        policy=policy,
        replicas_min=2,
        leader=-1,
        epoch=4,
        version=6,
        replicas=[1, 2, 3],
        live_replicas=[1, 2],
        copy_sets=copy_sets or [],
        records=records,
    )


def test_batches_become_entries_with_their_kind() -> None:
    records = bytearray(batch(b"x", b"y"))
    stamp(records, 0, 0, 3)
    response = _response(bytes(records + hole(2, 3, 4) + bridge(3, 4) + records[:20]))
    crc = read_header(records).crc
    answer = store_answer(A, response)
    assert answer == StoreAnswer(
        A, answer.membership, Epoch(5), True, 1, 0, 9, 4, tuple(entry for entry, _ in batches_of(response))
    )
    assert [(e.base, e.end, e.epoch, e.content, e.kind) for e in answer.entries] == [
        (0, 2, 3, crc, EntryKind.EVENT),
        (2, 3, 4, 0, EntryKind.HOLE),
        (3, 4, 4, 4, EntryKind.BRIDGE),
    ]
    assert bytes(batches_of(response)[0][1]) == bytes(records)
    assert isinstance(answer.entries[0], Entry)


def test_a_response_without_batches_covers_the_whole_log() -> None:
    assert store_answer(A, _response()).read_end == 9


def test_the_membership_comes_from_the_spec() -> None:
    found = store_answer(A, _response()).membership
    assert found == Membership(Epoch(4), 6, False, frozenset((A, B, C)), frozenset((A, B)), 2, LivePolicy(2))
    assert store_answer(A, _response(policy="nrw:3,2,2")).membership.policy == QuorumPolicy(3, 2, 2)
    moving = _response(policy="majority", copy_sets=[CopySet([1, 2]), CopySet([3])])
    assert store_answer(A, moving).membership.policy == CopySetsPolicy(
        (PolicyCopySet(frozenset((A, B)), QuorumPolicy(2, 2, 2)), PolicyCopySet(frozenset((C,)), QuorumPolicy(1, 1, 1)))
    )


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="a replication policy is"):
        store_answer(A, _response(policy="chain"))

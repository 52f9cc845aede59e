"""Converts ReadStore responses into what the replication core compares."""

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import entry_of, entry_of_control
from tailrace.broker.replication.entries import Entry, end_of
from tailrace.broker.replication.policy import parse_policy
from tailrace.broker.replication.quorum_read import Membership, StoreAnswer
from tailrace.cluster.specs import NO_LEADER
from tailrace.protocol.batches.control_batches import control_kind
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.internal.read_store import ReadStoreResponse


def store_answer(spu: SpuId, response: ReadStoreResponse) -> StoreAnswer:
    """Converts a response.

    Raises KafkaError for batches that cannot be decoded, and ValueError for an unknown replication policy.
    """
    entries = tuple(entry for entry, _ in batches_of(response))
    return StoreAnswer(
        spu,
        _membership(response),
        Epoch(response.promised),
        response.in_doubt,
        response.high_watermark,
        response.log_start,
        response.log_end,
        end_of(entries, response.log_end),
        entries,
    )


def membership_of(replica: Replica) -> Membership:
    """Returns the membership by the spec that this store has."""
    spec = replica.spec
    return Membership(
        spec.epoch,
        spec.version,
        spec.leader != NO_LEADER,
        frozenset(spec.replicas),
        frozenset(spec.live_replicas),
        replica.replicas_min,
        replica.replication_policy,
    )


def batches_of(response: ReadStoreResponse) -> list[tuple[Entry, memoryview]]:
    """Returns each entry of a response with its bytes."""
    records = memoryview(response.records)
    found = []
    for position, header in iterate(response.records):
        kind = control_kind(header, response.records, position)
        entry = entry_of(header) if kind is None else entry_of_control(header, kind, response.records, position)
        found.append((entry, records[position : position + header.size]))
    return found


def _membership(response: ReadStoreResponse) -> Membership:
    copy_sets = [[SpuId(spu) for spu in each.spus] for each in response.copy_sets]
    return Membership(
        Epoch(response.epoch),
        response.version,
        response.leader != NO_LEADER,
        frozenset(map(SpuId, response.replicas)),
        frozenset(map(SpuId, response.live_replicas)),
        response.replicas_min,
        parse_policy(
            response.policy,
            replicas=len(response.replicas),
            replicas_min=response.replicas_min,
            copy_sets=copy_sets,
        ),
    )

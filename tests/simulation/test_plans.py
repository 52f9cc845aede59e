"""Hand-written plans of faults that chance rarely makes; each of them once lost records or stopped the cluster."""

import pytest
from simulation.faults import Fault
from simulation.scenario import Scenario
from simulation.simulation import simulate

HASTY = {"lrs.max.lag.ms": "400"}
FLIPPING = {**HASTY, "internal.segment.bytes": "4000", "index.interval.bytes": "200"}
SCRUBBED = {"scrub.interval.ms": "1000"}


def planned(at: float, kind: str, target: int, seconds: float, seed: int = 1) -> Fault:
    return Fault(at, kind, target, seconds, seed)


BY_QUORUM = {
    # SPU 3 is isolated. SPU 2 loses its disk, and is alone when SPU 1 is killed: it is elected, and empty.
    "majority": (
        planned(2.0, "partition", 2, 6.0),
        planned(3.0, "lose_disk", 1, 4.0),
        planned(5.5, "kill_spu", 0, 3.4),
    ),
    "nrw:3,1,3": (
        planned(3.0, "lose_disk", 1, 3.0),
        planned(5.5, "kill_spu", 0, 2.0),
        planned(5.5, "kill_spu", 2, 2.5),
    ),
}


@pytest.mark.parametrize("policy", BY_QUORUM)
def test_a_store_that_lost_its_disk_is_elected_by_quorum_and_recovers_its_records(policy: str) -> None:
    topic = {**HASTY, "replication.policy": policy, "min.insync.replicas": "1"}
    assert simulate(Scenario(1, policy, topic=topic, faults=BY_QUORUM[policy])).failure is None


def test_another_replica_takes_over_from_a_leader_that_repairs_its_log_without_an_sc() -> None:
    faults = planned(2.0, "flip_lone_end", 0, 0.5), planned(3.95, "kill_sc", 0, 0.8)
    topic = {**FLIPPING, "min.insync.replicas": "2"}
    scenario = Scenario(1, "live", topic=topic, broker=SCRUBBED, has_flips=True, is_hasty=True, faults=faults)
    assert simulate(scenario).failure is None


@pytest.mark.parametrize("lost_at", [3.5, 3.55, 3.6])
def test_records_are_not_read_before_they_are_synced(lost_at: float) -> None:
    """The records are stored with `flush.messages=1` after the only SPU was killed, and before the power fails."""
    faults = (
        planned(2.9, "slow_disk", 0, 6.0, 3),
        planned(3.2, "kill_spu", 0, 0.02),
        planned(lost_at, "lose_power", 0, 0.3),
    )
    topic = {"min.insync.replicas": "1", "flush.messages": "1"}
    scenario = Scenario(1, "live", replicas=1, topic=topic, batches=120, patience_seconds=0.5, faults=faults)
    assert simulate(scenario).failure is None


def test_a_leader_counts_what_it_has_synced_since_it_recovered() -> None:
    """A sync of records that the leader had to truncate ended during the truncation."""
    faults = (
        planned(2.0, "partition", 0, 1.1),
        planned(3.0, "slow_disk", 0, 1.5, 3),
        planned(2.9, "kill_spu", 0, 0.02),
        planned(3.2, "kill_spu", 1, 3.0),
        planned(3.2, "kill_spu", 2, 0.4),
    )
    topic = {**HASTY, "replication.policy": "majority", "min.insync.replicas": "1", "flush.messages": "1"}
    assert simulate(Scenario(1, "majority", topic=topic, is_hasty=True, batches=200, faults=faults)).failure is None

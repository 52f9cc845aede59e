"""Which replica a consumer should read from."""

import pytest
from logs import log_at
from simulation.files import SimulatedFiles

from tailrace.broker.handlers.records.follower_reads import NO_PREFERENCE, preferred_replica
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec, SpuSpec
from tailrace.protocol.ids import Epoch, SpuId, TopicId

LEADER, NEAR, NEARER, AWAY, LAGGING, BESIDE = SPUS = [SpuId(each) for each in range(1, 7)]
RACKS = {
    LEADER: SpuSpec(LEADER, "a"),
    NEAR: SpuSpec(NEAR, "b"),
    NEARER: SpuSpec(NEARER, "b"),
    AWAY: SpuSpec(AWAY, "c", online=False),
    LAGGING: SpuSpec(LAGGING, "d"),
    BESIDE: SpuSpec(BESIDE, "a"),
}
ENDS = {NEAR: 10, NEARER: 12, AWAY: 12, LAGGING: 3, BESIDE: 12}


def _replica(
    here: SpuId = LEADER, live: tuple[SpuId, ...] = (LEADER, NEAR, NEARER, AWAY, BESIDE), **configs: str
) -> Replica:
    spec = PartitionSpec(TopicId(int=7), "t", 0, LEADER, Epoch(5), tuple(SPUS), live)
    settings = settings_of({name.replace("_", "."): value for name, value in configs.items()}, BrokerConfigs({}))
    log = log_at(SimulatedFiles(), "/data/topics/t/7/0", settings.log, clean=True)
    replica = Replica(here, spec, log, settings, 0)
    if here == LEADER:
        replica.begin_leading()
    replica.follower_matched_end = ENDS.get
    return replica


@pytest.mark.parametrize(
    ("rack", "offset", "preferred"),
    [
        ("b", 0, NEARER),
        ("b", 12, NEARER),
        ("b", 13, NO_PREFERENCE),
        ("b", -1, NO_PREFERENCE),
        ("a", 0, NO_PREFERENCE),
        ("c", 0, NO_PREFERENCE),
        ("d", 0, NO_PREFERENCE),
        ("e", 0, NO_PREFERENCE),
    ],
    ids=["most of the log", "its end", "beyond", "before", "the leader's", "away", "not live", "nobody's"],
)
def test_a_live_follower_in_the_consumers_rack_that_has_the_offset(rack: str, offset: int, preferred: SpuId) -> None:
    assert preferred_replica(_replica(), rack, offset, RACKS) == preferred


def test_a_follower_that_is_not_known_to_have_anything_is_passed_over() -> None:
    replica = _replica()
    replica.follower_matched_end = {NEAR: 0}.get
    assert preferred_replica(replica, "b", 0, RACKS) == NEAR
    assert preferred_replica(replica, "b", 1, RACKS) == NO_PREFERENCE


def test_a_follower_sends_no_consumer_elsewhere() -> None:
    assert preferred_replica(_replica(here=AWAY), "b", 0, RACKS) == NO_PREFERENCE


def test_uncommitted_records_are_read_from_the_leader() -> None:
    assert preferred_replica(_replica(consumer_consistency="uncommitted"), "b", 0, RACKS) == NO_PREFERENCE

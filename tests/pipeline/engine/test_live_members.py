"""Tests whether a run finds the replicas that handle its events already."""

from tailrace.cluster.stream_state.stream_state import GroupState, StreamMember, StreamRead
from tailrace.pipeline.engine.live_members import conflict_with
from tailrace.trigger.config.trigger_config import TriggerConfig

CONFIG = TriggerConfig(name="bill", topic="orders", group="billing")


def _read(*members: str, replicas: int = 0, age_ms: int = 1000) -> StreamRead:
    state = GroupState(tuple(StreamMember(each, frozenset(), 1, "p", 10_000) for each in members), 1)
    return StreamRead(3, replicas, state, 1, dict.fromkeys(members, age_ms))


def test_nothing_stands_in_the_way_of_the_only_member() -> None:
    assert conflict_with(_read(), "spark", CONFIG) is None
    assert conflict_with(_read("spark", replicas=1), "spark", CONFIG) is None


def test_live_replicas_are_named() -> None:
    found = conflict_with(_read("replica1", "replica2"), "spark", CONFIG)
    assert found is not None
    assert found.startswith("replica1 and replica2 handle orders in the group billing already")


def test_stale_replicas_do_not_count() -> None:
    assert conflict_with(_read("replica1", age_ms=10_001), "spark", CONFIG) is None


def test_a_deployed_trigger_with_several_replicas_would_want_its_shards() -> None:
    found = conflict_with(_read(replicas=3), "spark", CONFIG)
    assert found is not None
    assert "a trigger with 3 replicas is deployed" in found

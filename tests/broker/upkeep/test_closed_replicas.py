import pytest

from tailrace.broker.upkeep import closed_replicas
from tailrace.broker.upkeep.closed_replicas import ClosedReplicas
from tailrace.broker.upkeep.parking import Storage
from tailrace.protocol.ids import Epoch, TopicId
from tailrace.storage.directory.checkpoints import SavedHighWatermark

TOPIC, OTHER = TopicId(int=1), TopicId(int=2)
SAVED = SavedHighWatermark(1, Epoch(1))


def test_the_oldest_high_watermarks_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_replicas, "HIGH_WATERMARKS_KEPT_MAX", 2)
    closed = ClosedReplicas()
    for partition in (1, 0, 2):
        closed.keep((TOPIC, partition), SAVED)
        closed.clean.add((TOPIC, partition))
    assert set(closed.high_watermarks) == {(TOPIC, 0), (TOPIC, 2)}
    assert not closed.take_clean((TOPIC, 1))


def test_a_log_is_not_known_to_be_clean_after_it_was_opened() -> None:
    closed = ClosedReplicas()
    closed.clean.add((TOPIC, 0))
    assert closed.take_clean((TOPIC, 0))
    assert not closed.take_clean((TOPIC, 0))


@pytest.mark.parametrize(
    "removed, left",
    [(Storage("t", TOPIC), {(OTHER, 0)}), (Storage("t", TOPIC, 0), {(TOPIC, 1), (OTHER, 0)})],
    ids=["a topic", "a partition"],
)
def test_removed_storage_is_forgotten(removed: Storage, left: set[tuple[TopicId, int]]) -> None:
    closed = ClosedReplicas()
    for key in ((TOPIC, 0), (TOPIC, 1), (OTHER, 0)):
        closed.keep(key, SAVED)
        closed.clean.add(key)
    closed.forget(removed)
    assert closed.clean == set(closed.high_watermarks) == left

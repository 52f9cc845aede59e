"""The shelves that an SPU has to store, by specs that arrive in any order."""

import pytest
from msgspec.structs import replace

from tailrace.broker.shelves.shelf_duties import ShelfDuties
from tailrace.cluster.specs import PartitionSpec, Shelf
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.storage.directory.layout import ShelfKey

LEADER, HERE, OTHER = map(SpuId, (1, 5, 6))
TOPIC = TopicId(int=7)
PLAIN = PartitionSpec(TOPIC, "t", 0, LEADER, Epoch(3), (LEADER,), (LEADER,), version=4)
SHELVES = (
    Shelf(0, 10, (HERE, OTHER)),
    Shelf(10, 20, (OTHER,)),
    Shelf(20, 30, (OTHER,), (HERE,)),
    Shelf(30, 35, (HERE,)),
)
SHELVED = replace(PLAIN, shelves=SHELVES, shelved_from=5)


def _bases(duties: ShelfDuties) -> list[int]:
    return [each.shelf.base for each in duties]


def _with(*specs: PartitionSpec, is_full: bool = True) -> ShelfDuties:
    duties = ShelfDuties(HERE)
    assert duties.apply(specs, (), is_full=is_full) == []
    return duties


def test_shelves_that_name_the_spu_are_its_duties() -> None:
    duties = _with(SHELVED)
    assert [(each.key, each.confirmed_end, each.has_others, each.start) for each in duties] == [
        (ShelfKey(TOPIC, 0, 0), 10, True, 5),
        (ShelfKey(TOPIC, 0, 20), 0, True, 20),
        (ShelfKey(TOPIC, 0, 30), 35, False, 30),
    ]
    assert len(duties) == 3
    assert (
        ShelfKey(TOPIC, 0, 20) in duties
        and ShelfKey(TOPIC, 0, 10) not in duties
        and ShelfKey(TOPIC, 1, 20) not in duties
    )
    assert duties.require(ShelfKey(TOPIC, 0, 20)).spec is SHELVED
    with pytest.raises(KafkaError) as refused:
        duties.require(ShelfKey(TOPIC, 0, 10))
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_newest_spec_counts() -> None:
    duties = _with(SHELVED)
    for is_full in (False, True):
        duties.apply([replace(PLAIN, version=3)], (), is_full=is_full)
        duties.apply([replace(PLAIN, epoch=Epoch(2), version=9)], (), is_full=is_full)
        assert _bases(duties) == [0, 20, 30]
    duties.apply([replace(SHELVED, shelves=SHELVES[2:], version=5)], (), is_full=False)
    assert _bases(duties) == [20, 30]
    duties.apply([replace(PLAIN, version=6)], (), is_full=False)
    assert _bases(duties) == []


def test_duties_end_by_removal_or_by_absence_from_full_specs() -> None:
    another = replace(SHELVED, partition=1)
    duties = _with(SHELVED, another)
    duties.apply([], [(TOPIC, 0), (TOPIC, 9)], is_full=False)
    assert {each.key.partition for each in duties} == {1}
    duties.apply([], (), is_full=False)
    assert len(duties) == 3
    duties.apply([SHELVED], (), is_full=True)
    assert {each.key.partition for each in duties} == {0}


def test_all_duties_are_known_after_full_specs() -> None:
    duties = _with(SHELVED, is_full=False)
    assert not duties.are_all_known
    for is_full in (True, False):
        duties.apply((), (), is_full=is_full)
        assert duties.are_all_known


def test_each_unclean_election_reports_its_shelves_once() -> None:
    unclean = replace(SHELVED, was_unclean=True)
    duties = ShelfDuties(HERE)
    keys = [ShelfKey(TOPIC, 0, base) for base in (0, 20, 30)]
    assert duties.apply([unclean], (), is_full=True) == keys
    assert duties.apply([replace(unclean, version=5)], (), is_full=True) == []
    assert duties.apply([replace(unclean, epoch=Epoch(4))], (), is_full=False) == keys
    assert duties.apply([replace(unclean, epoch=Epoch(3))], (), is_full=False) == []

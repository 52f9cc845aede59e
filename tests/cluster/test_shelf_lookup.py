from uuid import UUID

import pytest
from msgspec.structs import replace

from tailrace.cluster.shelf_lookup import earliest_offset, has_shelf, shelf_of, shelved_end
from tailrace.cluster.specs import PartitionSpec, Shelf
from tailrace.protocol.ids import Epoch, SpuId

ONE, TWO = (SpuId(4), SpuId(5)), (SpuId(6), SpuId(4))
PLAIN = PartitionSpec(UUID(int=1), "t", 0, SpuId(0), Epoch(1), (SpuId(0),), (SpuId(0),))
SHELVED = replace(PLAIN, shelved_from=10, shelves=(Shelf(0, 100, ONE), Shelf(100, 150, TWO)))


def test_without_shelves_a_partition_begins_where_the_log_does():
    assert earliest_offset(PLAIN, 7) == 7
    assert shelf_of(PLAIN, 3, 7) is None
    assert shelved_end(PLAIN) == 0


@pytest.mark.parametrize("log_start", [0, 5, 120, 150])
def test_with_shelves_it_begins_where_they_do(log_start):
    assert earliest_offset(SHELVED, log_start) == 10


@pytest.mark.parametrize(("offset", "base"), [(9, None), (10, 0), (99, 0), (100, 100), (149, 100), (150, None)])
def test_an_offset_before_the_log_is_on_one_shelf(offset, base):
    found = shelf_of(SHELVED, offset, 150)
    assert (found and found.base) == base


def test_what_the_log_has_is_not_looked_for_on_shelves():
    assert shelf_of(SHELVED, 120, 120) is None
    assert shelf_of(SHELVED, 119, 120) == SHELVED.shelves[1]


def test_once_more_was_deleted_than_is_on_shelves_they_are_not_read():
    assert earliest_offset(SHELVED, 151) == 151
    assert shelf_of(SHELVED, 120, 151) is None


def test_a_shelf_on_which_nothing_is_yet_is_no_beginning():
    begun = replace(PLAIN, shelved_from=20, shelves=(Shelf(20, 20, ONE),))
    assert earliest_offset(begun, 20) == 20
    assert earliest_offset(begun, 40) == 40


def test_who_keeps_a_shelf_and_who_is_to_get_one():
    filled = replace(SHELVED, shelves=(Shelf(0, 100, ONE), Shelf(100, 150, TWO, (SpuId(7),))))
    assert [spu for spu in range(9) if has_shelf(filled, SpuId(spu))] == [4, 5, 6, 7]

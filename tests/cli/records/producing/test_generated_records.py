import json

import pytest

from tailrace.cli.records.formats.produced_lines import Entry
from tailrace.cli.records.producing.generated_records import GeneratedRecords
from tailrace.runtime.chance import RandomChance


def _generated(seed: int = 7, size: int = 80, keys: int = 3, partitions: int = 2) -> GeneratedRecords:
    return GeneratedRecords(RandomChance(seed), size, keys, range(partitions))


def test_a_seed_always_gives_the_same_records() -> None:
    first, second = _generated(), _generated()
    assert first.take(10) == [*second.take(3), *second.take(7)]
    # Other versions of Python and Tailrace give this record as well.
    assert _generated(size=50).take(1) == [Entry(b"key-1", b'{"number": 0, "filler": "ca264e1269e0d37f2a74de4"}')]
    assert _generated(seed=8).take(10) != _generated().take(10)


def test_a_value_is_json_of_the_given_size() -> None:
    records = _generated().take(50)
    assert [json.loads(each.value or b"")["number"] for each in records] == list(range(50))
    assert {len(each.value or b"") for each in records} == {80}
    assert {each.key for each in records} == {b"key-0", b"key-1", b"key-2"}
    assert {each.partition for each in records} == {None}


@pytest.mark.parametrize("size", [1, 2, 29, 30, 31])
def test_a_small_value_has_its_size_too(size: int) -> None:
    assert {len(each.value or b"") for each in _generated(size=size).take(12)} == {size}


def test_records_without_keys_take_turns() -> None:
    assert [(each.key, each.partition) for each in _generated(keys=0).take(3)] == [(None, 0), (None, 1), (None, 0)]

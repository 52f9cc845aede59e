from hypothesis import given
from hypothesis import strategies as st

from tailrace.trigger.membership.fair_shares import fair_share


def _join_in_order(shards: int, replicas: int, ids: list[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for member_id in ids:
        free = shards - sum(counts.values())
        counts[member_id] = min(free, fair_share(shards, replicas, member_id, counts))
    return counts


@given(st.integers(0, 200), st.integers(1, 60), st.randoms(use_true_random=False))
def test_shares_differ_by_at_most_one_and_use_every_shard(shards: int, replicas: int, random: object) -> None:
    ids = [f"replica{number}" for number in range(replicas)]
    random.shuffle(ids)  # type: ignore[attr-defined]
    counts = _join_in_order(shards, replicas, ids)
    assert sum(counts.values()) == shards
    assert max(counts.values()) - min(counts.values()) <= 1
    assert all(count == fair_share(shards, replicas, member_id, counts) for member_id, count in counts.items())


def test_the_first_of_three_takes_only_a_third_of_twelve() -> None:
    assert fair_share(12, 3, "replica1", {}) == 4


def test_a_fourth_member_of_three_gets_nothing_that_is_free() -> None:
    assert fair_share(2, 3, "replica4", {"replica1": 1, "replica2": 1}) == 0


def test_members_with_more_than_the_new_share_keep_the_larger_shares_in_the_order_of_their_ids() -> None:
    counts = {"a": 4, "b": 4, "c": 4}
    assert [fair_share(12, 5, each, counts) for each in "abc"] == [3, 3, 2]
    assert fair_share(12, 5, "d", counts) == 2


def test_a_trigger_without_replicas_counts_as_one() -> None:
    assert fair_share(12, 0, "replica1", {}) == 12


@given(st.integers(0, 40), st.integers(1, 12), st.lists(st.integers(0, 10), min_size=1, max_size=12))
def test_members_that_hold_too_much_end_with_fair_shares(shards: int, replicas: int, held: list[int]) -> None:
    """Whatever the members hold, giving and taking by their shares ends, and uses every shard if all are there."""
    counts: dict[str, int] = {}
    for number, count in enumerate(held[:replicas]):
        counts[f"replica{number}"] = min(count, shards - sum(counts.values()))
    ids = [f"replica{number}" for number in range(replicas)]
    for _ in range(4):
        for member_id in ids:
            share = fair_share(shards, replicas, member_id, counts)
            free = shards - sum(counts.values())
            counts[member_id] = min(share, counts.get(member_id, 0) + free)
    assert sum(counts.values()) == shards
    assert max(counts.values()) - min(counts.values()) <= 1

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.groups.offsets.committed_offsets import CommittedOffset, CommittedOffsets

int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
committed_offsets = st.builds(
    CommittedOffset, int64, int32, st.text(max_size=30), int64, int64, st.uuids() | st.just(UUID(int=0))
)


@given(committed_offsets)
def test_nothing_is_lost_by_packing(committed: CommittedOffset) -> None:
    offsets = CommittedOffsets()
    offsets.put("g", "t", 0, committed)
    assert offsets.get("g", "t", 0) == committed
    assert list(offsets.of_group("g")) == [("t", 0, committed)]


def test_a_group_is_here_as_long_as_it_has_any() -> None:
    offsets = CommittedOffsets()
    offsets.put("g", "t", 0, CommittedOffset(1))
    offsets.put("g", "t", 1, CommittedOffset(2))
    offsets.put("g", "u", 0, CommittedOffset(3))
    assert "g" in offsets and len(offsets) == 3
    assert (offsets.topics("g"), offsets.partitions("g", "t"), offsets.partitions("g", "v")) == (["t", "u"], [0, 1], [])
    assert offsets.remove("g", "t", 0) and offsets.remove("g", "t", 1)
    assert offsets.topics("g") == ["u"] and offsets.get("g", "t", 1) is None
    assert not offsets.remove("g", "t", 1) and not offsets.remove("other", "t", 1)
    assert offsets.remove("g", "u", 0)
    assert "g" not in offsets and len(offsets) == 0 and offsets.group_ids() == []
    assert offsets.topics("g") == offsets.partitions("g", "u") == list(offsets.of_group("g")) == []


def test_whether_one_may_have_expired_is_known_without_a_look_at_each() -> None:
    offsets = CommittedOffsets()
    assert not offsets.may_have_expired("g", 10**12, 0)
    offsets.put("g", "t", 0, CommittedOffset(1, committed_ms=1000))
    offsets.put("g", "t", 1, CommittedOffset(1, committed_ms=5000))
    assert not offsets.may_have_expired("g", 1999, 1000)
    assert offsets.may_have_expired("g", 2000, 1000)
    offsets.put("g", "t", 2, CommittedOffset(1, committed_ms=5000, expires_ms=1500))
    assert not offsets.may_have_expired("g", 1499, 1000)
    assert offsets.may_have_expired("g", 1500, 1000)


def test_what_went_or_came_anew_counts_no_more_once_all_were_seen() -> None:
    offsets = CommittedOffsets()
    offsets.put("g", "t", 0, CommittedOffset(1, committed_ms=1000))
    offsets.put("g", "t", 1, CommittedOffset(1, committed_ms=2000, expires_ms=1500))
    offsets.put("g", "t", 0, CommittedOffset(2, committed_ms=4000))
    offsets.remove("g", "t", 1)
    assert offsets.may_have_expired("g", 2000, 1000)
    offsets.recompute_oldest("g")
    assert not offsets.may_have_expired("g", 4999, 1000)
    assert offsets.may_have_expired("g", 5000, 1000)
    offsets.recompute_oldest("other")


def test_the_beginning_of_the_metadata_is_looked_at_without_unpacking() -> None:
    offsets = CommittedOffsets()
    assert not offsets.metadata_has_prefix("g", "t", 0, b"tri")
    offsets.put("g", "t", 0, CommittedOffset(7, metadata="trigger"))
    offsets.put("g", "t", 1, CommittedOffset(7))
    assert offsets.metadata_has_prefix("g", "t", 0, b"tri")
    for partition, prefix in ((0, b"rig"), (1, b"tri"), (2, b"tri")):
        assert not offsets.metadata_has_prefix("g", "t", partition, prefix)

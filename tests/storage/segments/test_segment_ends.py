from msgspec.structs import replace

from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.leader_epochs import EpochStart, LeaderEpochs
from tailrace.storage.manifest.manifest import SegmentFacts
from tailrace.storage.segments.segment_ends import SealedBy, may_have_bridge, sealed_by

CONFIG = LogConfig(segment_bytes_max=1000, segment_age_ms_max=60_000, index_bytes_max=80)
SEGMENT = SegmentFacts(10, 20, 3, size=600, first_timestamp=1_000_000, max_timestamp=1_001_000)
NEXT = SegmentFacts(20, 25, 3, size=300, first_timestamp=1_002_000, max_timestamp=1_002_000)
ONE_EPOCH = LeaderEpochs([EpochStart(3, 0)])


def _sealed_by(
    segment: SegmentFacts = SEGMENT,
    following: SegmentFacts | None = NEXT,
    epochs: LeaderEpochs = ONE_EPOCH,
    *,
    has_bridge: bool = False,
) -> SealedBy | None:
    return sealed_by(segment, following, epochs, CONFIG, has_bridge=has_bridge)


def test_the_last_segment_has_ended_only_if_with_a_bridge() -> None:
    assert _sealed_by(following=None) is None
    assert _sealed_by(following=None, has_bridge=True) is SealedBy.BRIDGE


def test_what_is_written_in_the_log_comes_before_what_the_settings_suggest() -> None:
    other_epoch = LeaderEpochs([EpochStart(3, 0), EpochStart(4, 20)])
    late = replace(NEXT, first_timestamp=2_000_000, size=900)
    assert _sealed_by(following=late, epochs=other_epoch) is SealedBy.EPOCH
    assert _sealed_by(following=late, epochs=other_epoch, has_bridge=True) is SealedBy.BRIDGE


def test_full_if_the_next_one_would_not_have_fitted() -> None:
    assert _sealed_by(following=replace(NEXT, size=401)) is SealedBy.FULL
    assert _sealed_by(following=replace(NEXT, size=400)) is None, "nothing tells"
    assert _sealed_by(replace(SEGMENT, index_entries=10)) is SealedBy.FULL


def test_aged_if_the_next_segment_is_much_later() -> None:
    assert _sealed_by(following=replace(NEXT, first_timestamp=1_060_001, size=900)) is SealedBy.AGED
    assert _sealed_by(following=replace(NEXT, first_timestamp=1_060_000)) is None
    assert _sealed_by(following=replace(NEXT, first_timestamp=-1)) is None, "it has no time"


def test_where_a_bridge_may_be() -> None:
    assert may_have_bridge(SEGMENT, LeaderEpochs([EpochStart(3, 0), EpochStart(4, 19)]))
    assert not may_have_bridge(SEGMENT, LeaderEpochs([EpochStart(3, 0), EpochStart(4, 20)]))
    assert not may_have_bridge(SEGMENT, LeaderEpochs([EpochStart(3, 0), EpochStart(4, 18)]))

"""Which epochs of batches count. On the disk, and through crashes: test_log_stamping."""

import pytest
from batch_samples import header_of, make_batch

from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.manifest.leader_epochs import EpochStart, LeaderEpochs
from tailrace.storage.manifest.log_epochs import LogEpochs
from tailrace.storage.manifest.manifest import SegmentFacts


def _epochs(*starts: tuple[int, int], stamped_end: int = 0) -> LogEpochs:
    return LogEpochs(LeaderEpochs(EpochStart(*start) for start in starts), stamped_end)


def _append(epochs: LogEpochs, offset: int, epoch: int) -> None:
    """Handles a batch as the log does."""
    if epoch != epochs.latest:
        epochs.on_new_epoch(header_of(make_batch(offset, epoch=epoch)))


def test_a_batch_of_another_epoch_begins_it() -> None:
    epochs = _epochs()
    assert epochs.latest == NO_EPOCH
    for offset, epoch in enumerate((1, 1, 4, 4)):
        _append(epochs, offset, epoch)
    assert list(epochs.starts) == [(1, 0), (4, 2)]
    assert epochs.latest == 4


def test_batches_stamped_elsewhere_begin_nothing_before_their_bridge() -> None:
    epochs = _epochs((1, 0))
    epochs.expect_stamped(10, 12, 4, ())
    for offset in (10, 11):
        _append(epochs, offset, 4)
    assert list(epochs.starts) == [(1, 0)]
    epochs.on_bridge(4, 12)
    assert (list(epochs.starts), epochs.latest) == ([(1, 0), (4, 12)], 4)


def test_announced_epochs_of_batches_stamped_elsewhere_count() -> None:
    epochs = _epochs((1, 0), (2, 11))
    epochs.expect_stamped(10, 14, 5, [EpochStart(1, 10), EpochStart(3, 12)])
    for offset, epoch in ((10, 2), (11, 2), (12, 5), (13, 5), (14, 5)):
        _append(epochs, offset, epoch)
    assert list(epochs.starts) == [(1, 0), (3, 12), (5, 14)]


@pytest.mark.parametrize(("offset", "epoch"), [(12, 4), (11, 5)])
def test_batches_behind_the_stamped_ones_or_of_later_epochs_count(offset: int, epoch: int) -> None:
    epochs = _epochs((1, 0))
    epochs.expect_stamped(10, 12, 4, ())
    _append(epochs, offset, epoch)
    assert list(epochs.starts) == [(1, 0), (epoch, offset)]


def test_truncation_removes_epochs_that_began_there() -> None:
    epochs = _epochs((1, 0), (4, 12), stamped_end=12)
    epochs.truncate(10)
    assert (list(epochs.starts), epochs.latest, epochs.stamped_end) == ([(1, 0)], 1, 10)
    epochs.on_stamped(5, 4)
    assert epochs.stamped_end == 10
    _append(epochs, 10, 4)
    assert list(epochs.starts) == [(1, 0), (4, 10)]


@pytest.mark.parametrize(
    ("facts", "noted"),
    [
        (SegmentFacts(0, 12, epoch=1), None),
        (SegmentFacts(0, 12, epoch=4), (EpochStart(1, 0),)),
        (SegmentFacts(12, 20, epoch=4), None),
        (SegmentFacts(13, 20, epoch=5), ()),
        (SegmentFacts(0, 20, epoch=4), (EpochStart(1, 0), EpochStart(4, 12))),
        (SegmentFacts(12, 20, epoch=4, epoch_starts=()), (EpochStart(4, 12),)),
    ],
)
def test_the_manifest_names_the_epochs_that_a_segment_alone_would_not_tell(
    facts: SegmentFacts, noted: tuple[EpochStart, ...] | None
) -> None:
    assert _epochs((1, 0), (4, 12)).with_epoch_starts(facts).epoch_starts == noted

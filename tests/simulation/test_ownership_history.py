"""What members of a KIP-848 group may be told, and what they must not be told."""

import pytest
from simulation.offset_history import GroupHistoryError, OffsetHistory
from simulation.ownership_history import OwnershipHistory


def _history() -> OwnershipHistory:
    return OwnershipHistory("group-1", [OffsetHistory("0"), OffsetHistory("1")])


def test_a_partition_has_one_holder_at_a_time() -> None:
    history = _history()
    history.on_epoch("a", 1)
    history.on_owned("a", [0, 1], 0)
    history.on_owned("a", [0], 1)
    with pytest.raises(GroupHistoryError, match=r"b was given 1 at .* which a holds"):
        history.on_owned("b", [1], 2)
    history.on_released("a", [1])
    history.on_owned("b", [1], 3)
    assert history.handovers == 1


def test_a_long_silent_member_owns_nothing_for_sure() -> None:
    history = _history()
    history.on_owned("a", [0], 0)
    history.on_sure_until("a", 5)
    with pytest.raises(GroupHistoryError, match="for sure until 5"):
        history.on_owned("b", [0], 4.9)
    history.on_owned("b", [0], 5)


def test_a_late_assignment_may_be_out_of_date() -> None:
    history = _history()
    history.on_owned("b", [0], 5.9)
    history.on_sure_until("a", 6.1)
    with pytest.raises(GroupHistoryError, match="which b holds"):
        history.on_owned("a", [0], 6)
    history.on_sure_until("a", 6)
    history.on_owned("a", [0], 6)


def test_a_member_that_left_owns_nothing() -> None:
    history = _history()
    history.on_owned("a", [0], 0)
    history.on_left("a")
    history.on_owned("b", [0], 1)


def test_epochs_of_a_member_do_not_fall() -> None:
    history = _history()
    history.on_epoch("a", 3)
    history.on_epoch("b", 2)
    with pytest.raises(GroupHistoryError, match="epoch of a fell from 3 to 2"):
        history.on_epoch("a", 2)
    history.on_left("a")
    history.on_epoch("a", 1)


def test_a_former_owner_cannot_commit() -> None:
    offsets = OffsetHistory("0")
    history = OwnershipHistory("group-1", [offsets])
    history.on_epoch("a", 1)
    history.on_owned("a", [0], 0)
    history.on_released("a", [0])
    history.on_epoch("b", 2)
    history.on_owned("b", [0], 1)
    with pytest.raises(GroupHistoryError, match="a later term"):
        offsets.on_acknowledged(offsets.on_commit("x", 5, 2, term=1), 3)

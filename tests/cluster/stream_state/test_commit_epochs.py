import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cluster.stream_state.commit_epochs import (
    CommitEpoch,
    StoredCommit,
    format_commit_epoch,
    is_fenced,
    parse_commit_epoch,
)


def _text(epoch: int, member_id: str = "replica1") -> str:
    return format_commit_epoch(CommitEpoch(epoch, member_id))


def _at(offset: int, metadata: str) -> StoredCommit:
    return StoredCommit(offset, metadata)


def test_the_text_names_the_epoch_and_the_member() -> None:
    assert _text(7) == "trigger epoch=7 member=replica1"


@given(st.integers(0, 2**62), st.text(min_size=1))
def test_what_was_formatted_is_parsed(epoch: int, member_id: str) -> None:
    assert parse_commit_epoch(_text(epoch, member_id)) == CommitEpoch(epoch, member_id)


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "hello",
        "trigger epoch= member=a",
        "trigger epoch=-1 member=a",
        "trigger epoch=1",
        "a trigger epoch=1 member=a",
        "trigger epoch=01 member=a",
        "trigger epoch=1 member=",
        "trigger epoch=99999999999999999999 member=a",
    ],
)
def test_the_text_of_another_client_has_no_epoch(metadata: str) -> None:
    assert parse_commit_epoch(metadata) is None
    assert not is_fenced(_at(3, _text(5)), _at(2, metadata))
    assert not is_fenced(_at(3, metadata), _at(2, _text(5)))


def test_only_an_older_epoch_is_fenced() -> None:
    stored = _at(3, _text(5))
    assert is_fenced(stored, _at(3, _text(4)))
    assert is_fenced(stored, _at(9, _text(4)))
    assert not is_fenced(stored, _at(2, _text(5, "replica2")))
    assert not is_fenced(stored, _at(3, _text(6)))
    assert is_fenced(_at(3, _text(10)), _at(3, _text(9))), "epochs are compared as numbers"


def test_the_claim_of_a_new_owner_moves_no_offset_back() -> None:
    stored = _at(3, _text(5))
    assert is_fenced(stored, _at(2, _text(6)))
    assert not is_fenced(stored, _at(4, _text(6)))

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cluster.stream_state.stream_state import (
    GroupState,
    StreamMember,
    StreamStateError,
    decode_group_state,
    encode_group_state,
    format_heartbeat,
    member_documents,
    parse_heartbeat,
)

THREE = GroupState(
    (
        StreamMember("replica3", frozenset(range(8, 12)), 1_769_860_802_000, "c", 10_000),
        StreamMember("replica1", frozenset(range(4)), 1_769_860_800_123, "a", 10_000),
        StreamMember("replica2", frozenset(range(4, 8)), 1_769_860_801_000, "b", 10_000),
    ),
    epoch=3,
)
SEED = """\
[
  {
    "member_id": "replica1",
    "shards": "0-3",
    "last_heartbeat": "2026-01-31T12:00:00.123Z"
  },
  {
    "member_id": "replica2",
    "shards": "4-7",
    "last_heartbeat": "2026-01-31T12:00:01.000Z"
  },
  {
    "member_id": "replica3",
    "shards": "8-11",
    "last_heartbeat": "2026-01-31T12:00:02.000Z"
  }
]"""


@st.composite
def states(draw: st.DrawFn) -> GroupState:
    owners = draw(st.lists(st.integers(0, 3), max_size=30))
    members = tuple(
        StreamMember(
            f"replica{number}",
            frozenset(shard for shard, owner in enumerate(owners) if owner == number),
            draw(st.integers(0, 2**42)),
            process := draw(st.sampled_from(["", "5f0c"])),
            draw(st.integers(1, 60_000)) if process else 0,
        )
        for number in range(draw(st.integers(0, 4)))
    )
    return GroupState(members, draw(st.integers(0, 2**40)))


def test_people_see_the_three_fields_of_the_seed_in_the_order_of_the_shards() -> None:
    assert json.dumps(member_documents(THREE), indent=2) == SEED


def test_the_stored_document_has_the_members_the_epoch_and_the_leases() -> None:
    one = GroupState((StreamMember("replica1", frozenset({0, 1, 5}), 0, "5f0c", 10_000),), epoch=7)
    assert encode_group_state(one) == (
        '{"members": [{"member_id": "replica1", "shards": "0-1,5", "last_heartbeat": "1970-01-01T00:00:00.000Z"}], '
        '"epoch": 7, "leases": {"replica1": {"process": "5f0c", "session_timeout_ms": 10000}}}'
    )


@given(states())
def test_every_state_can_be_read_back(state: GroupState) -> None:
    again = decode_group_state(encode_group_state(state))
    assert again.epoch == state.epoch
    assert set(again.members) == set(state.members)


def test_an_entry_that_a_person_planted_needs_only_the_three_fields() -> None:
    planted = '{"members": [{"member_id": "ghost", "shards": "0-3", "last_heartbeat": "2026-01-31T12:00:00Z"}]}'
    assert decode_group_state(planted) == GroupState((StreamMember("ghost", frozenset(range(4)), 1_769_860_800_000),))


def test_members_are_found_by_id_and_by_shard() -> None:
    first = THREE.member("replica1")
    assert first is not None
    assert first.shards == {0, 1, 2, 3}
    assert THREE.owner(3) == first
    assert THREE.member("replica4") is None
    assert THREE.owner(12) is None


@given(st.integers(0, 2**42))
def test_every_heartbeat_can_be_read_back(milliseconds: int) -> None:
    assert parse_heartbeat(format_heartbeat(milliseconds)) == milliseconds


MEMBER = {"member_id": "a", "shards": "0-3", "last_heartbeat": "2026-01-31T12:00:00Z"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "the state is not JSON: .*"),
        ("[]", "the state is not a JSON object"),
        ("{}", 'the state has no list "members"'),
        ({"members": [], "epoch": "1"}, '"epoch" is not a whole number'),
        ({"members": [], "epoch": True}, '"epoch" is not a whole number'),
        ({"members": [], "leases": []}, '"leases" is not a JSON object'),
        ({"members": [1]}, "a member is not a JSON object"),
        ({"members": [{}]}, 'a member has no "member_id" of 1 to 249 characters'),
        ({"members": [{"member_id": "a"}]}, 'the member "a" needs the texts "shards" and "last_heartbeat"'),
        ({"members": [MEMBER | {"shards": "3-0"}]}, 'the member "a" is wrong: "3-0" does not name shards: .*'),
        ({"members": [MEMBER | {"last_heartbeat": "t0"}]}, 'the member "a" is wrong: .*t0.*'),
        ({"members": [MEMBER], "leases": {"a": 1}}, 'the lease of the member "a" needs the text "process"'),
        ({"members": [MEMBER], "leases": {"a": {"session_timeout_ms": -1}}}, '.*"session_timeout_ms" is not a whole.*'),
        ({"members": [MEMBER, MEMBER]}, 'the state has two members "a"'),
        ({"members": [MEMBER, MEMBER | {"member_id": "b"}]}, 'shard . has two owners, "a" and "b"'),
    ],
)
def test_anything_else_is_refused_with_a_sentence(document: object, message: str) -> None:
    with pytest.raises(StreamStateError, match=f"^{message}$"):
        decode_group_state(document if isinstance(document, str) else json.dumps(document))


def test_a_document_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(StreamStateError, match=r"^the state is not JSON: "):
        decode_group_state("[" * 100_000)

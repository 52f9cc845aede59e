"""The state object of a stream: for each consumer group, its members and the shards that each member handles. Pure.

The object of one group is a JSON document:

    {
      "members": [{"member_id": "replica1", "shards": "0-3", "last_heartbeat": "2026-01-31T12:00:00.123Z"}],
      "epoch": 7,
      "leases": {"replica1": {"process": "5f0c22e1", "session_timeout_ms": 10000}}
    }

- `members` is what people see. Members are ordered by their shards.
- `epoch` grows with each write that gives shards to a member. Commits of a shard carry the epoch of the write that gave
  the shard away, so that a member that has lost the shard is fenced.
- `leases` says which process wrote the entry of a member, and how long that process may handle shards without a
  heartbeat. A restarted `replica1` thus recognises that the entry of its name is not its own, and replicas with
  different session timeouts judge each other by the timeout of the judged one.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct, field

from .shard_ranges import format_shards, parse_shards

NO_VERSION = 0
"""The version of a group that has no state object yet."""
MEMBER_ID_CHARACTERS_MAX = 249
_EPOCH_MAX = 2**63 - 1
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class StreamStateError(ValueError):
    """A document is not the state of a group. The message is a sentence."""


class StreamMember(Struct, frozen=True):
    """A member of a group, as the state object has it."""

    member_id: str
    shards: frozenset[int]
    """The shards that the member may handle."""
    last_heartbeat_ms: int
    """When the member last wrote its entry, by its own wall clock. It only serves to tell heartbeats apart."""
    process: str = ""
    """A random name of the process that wrote the entry; empty if none is known."""
    session_timeout_ms: int = 0
    """How long the process may handle its shards without a heartbeat; 0 if that is unknown."""


class GroupState(Struct, frozen=True):
    """The members of one group. No two members have the same shard or the same id."""

    members: tuple[StreamMember, ...] = ()
    epoch: int = 0
    """The number of times that a member was given shards. It never falls while the topic exists."""

    def member(self, member_id: str) -> StreamMember | None:
        """Returns the entry of a member, if there is one."""
        return next((each for each in self.members if each.member_id == member_id), None)

    def owner(self, shard: int) -> StreamMember | None:
        """Returns the member that may handle a shard, if there is one."""
        return next((each for each in self.members if shard in each.shards), None)


class StreamRead(Struct, frozen=True):
    """What a read of one group returns."""

    shards: int
    """How many shards the stream has."""
    replicas: int = 0
    """How many replicas the deployed trigger of this topic and group should have; 0 if none is deployed."""
    state: GroupState = GroupState()
    version: int = NO_VERSION
    """The version that a write must name to replace the state."""
    ages_ms: Mapping[str, int] = field(default_factory=dict)
    """How long ago, at least, the Streaming Controller accepted the last heartbeat of each member."""


def encode_group_state(state: GroupState) -> str:
    """Returns the document of a group's state."""
    leases = {
        each.member_id: {"process": each.process, "session_timeout_ms": each.session_timeout_ms}
        for each in _ordered(state)
        if each.process
    }
    return json.dumps({"members": member_documents(state), "epoch": state.epoch, "leases": leases})


def member_documents(state: GroupState) -> list[dict[str, str]]:
    """Returns what people see of a group: the id, the shards and the last heartbeat of each member."""
    return [
        {
            "member_id": each.member_id,
            "shards": format_shards(each.shards),
            "last_heartbeat": format_heartbeat(each.last_heartbeat_ms),
        }
        for each in _ordered(state)
    ]


def decode_group_state(text: str) -> GroupState:
    """Reads the document of a group's state. Raises StreamStateError if it is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StreamStateError(f"the state is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise StreamStateError("the state is not a JSON object")
    rows, leases = document.get("members"), document.get("leases", {})
    if not isinstance(rows, list):
        raise StreamStateError('the state has no list "members"')
    if not isinstance(leases, dict):
        raise StreamStateError('"leases" is not a JSON object')
    epoch = _whole(document.get("epoch", 0), '"epoch"')
    return checked(GroupState(tuple(_member(row, leases) for row in rows), epoch))


def checked(state: GroupState) -> GroupState:
    """Returns the state. Raises StreamStateError if two members have the same id or the same shard."""
    owners: dict[int, str] = {}
    ids: set[str] = set()
    for member in state.members:
        if member.member_id in ids:
            raise StreamStateError(f'the state has two members "{member.member_id}"')
        ids.add(member.member_id)
        for shard in member.shards:
            if shard in owners:
                raise StreamStateError(f'shard {shard} has two owners, "{owners[shard]}" and "{member.member_id}"')
            owners[shard] = member.member_id
    return state


def format_heartbeat(milliseconds: int) -> str:
    """Returns the text of a time in UTC, such as `2026-01-31T12:00:00.123Z`."""
    time = _LONG_AGO + timedelta(milliseconds=milliseconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"


def parse_heartbeat(text: str) -> int:
    """Reads a time in ISO 8601; returns milliseconds since 1970. Raises ValueError if it is none."""
    time = datetime.fromisoformat(text)
    in_utc = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (in_utc - _LONG_AGO) // _MILLISECOND


def _ordered(state: GroupState) -> list[StreamMember]:
    return sorted(state.members, key=lambda each: (min(each.shards, default=_EPOCH_MAX), each.member_id))


def _member(row: Any, leases: dict[str, Any]) -> StreamMember:
    if not isinstance(row, dict):
        raise StreamStateError("a member is not a JSON object")
    member_id = row.get("member_id")
    if not isinstance(member_id, str) or not 0 < len(member_id) <= MEMBER_ID_CHARACTERS_MAX:
        raise StreamStateError(f'a member has no "member_id" of 1 to {MEMBER_ID_CHARACTERS_MAX} characters')
    shards, heartbeat = row.get("shards"), row.get("last_heartbeat")
    if not isinstance(shards, str) or not isinstance(heartbeat, str):
        raise StreamStateError(f'the member "{member_id}" needs the texts "shards" and "last_heartbeat"')
    lease = leases.get(member_id, {})
    if not isinstance(lease, dict) or not isinstance(lease.get("process", ""), str):
        raise StreamStateError(f'the lease of the member "{member_id}" needs the text "process"')
    try:
        return StreamMember(
            member_id,
            parse_shards(shards),
            parse_heartbeat(heartbeat),
            lease.get("process", ""),
            _whole(lease.get("session_timeout_ms", 0), '"session_timeout_ms"'),
        )
    except ValueError as error:
        raise StreamStateError(f'the member "{member_id}" is wrong: {error}') from error


def _whole(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value <= _EPOCH_MAX:
        raise StreamStateError(f"{what} is not a whole number")
    return value

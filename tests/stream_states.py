"""A state object of one group in memory, with the ages that the Streaming Controller measures."""

from tailrace.cluster.stream_state.stream_state import (
    NO_VERSION,
    GroupState,
    StreamRead,
    decode_group_state,
    encode_group_state,
)


class StateInMemory:
    """Compare-and-set on one document. Each call takes the time, by which ages are measured."""

    def __init__(self, shards: int, replicas: int = 0) -> None:
        self.shards = shards
        self.replicas = replicas
        self.version = NO_VERSION
        self.state = GroupState()
        self.writes: list[GroupState] = []
        self._since: dict[str, tuple[int, float]] = {}

    def read(self, now: float) -> StreamRead:
        ages_ms = {member_id: int((now - since) * 1000) for member_id, (_, since) in self._since.items()}
        return StreamRead(self.shards, self.replicas, self.state, self.version, ages_ms)

    def write(self, state: GroupState, expected_version: int, now: float) -> int | None:
        """Returns the new version, or None if the state has another version than expected."""
        if expected_version != self.version:
            return None
        return self.plant(state, now)

    def plant(self, state: GroupState, now: float) -> int:
        """Writes without a condition, as an administrator does."""
        self.state = decode_group_state(encode_group_state(state))
        self.version += 1
        self.writes.append(self.state)
        before = self._since
        self._since = {
            each.member_id: before[each.member_id]
            if before.get(each.member_id, (None, 0))[0] == each.last_heartbeat_ms
            else (each.last_heartbeat_ms, now)
            for each in self.state.members
        }
        return self.version

    def restart(self, now: float) -> None:
        """Forgets the ages, as a Streaming Controller does when it starts."""
        self._since = {member_id: (heartbeat, now) for member_id, (heartbeat, _) in self._since.items()}

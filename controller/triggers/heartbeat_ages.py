"""Measures the ages of the heartbeats in the state objects of streams, with the clock of the active SC alone.

Members write times of their own clocks, which are not compared. The SC notes when it first sees each heartbeat. So an
age is a lower bound of the time since the member wrote it, also after another SC has become active and begins at 0.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tailrace.controller.objects.objects import StreamAttribute
from tailrace.controller.state.events import Removed, Stored
from tailrace.controller.state.object_codec import key_of


class SeenHeartbeat(NamedTuple):
    """A heartbeat of a member, and when the SC first saw it."""

    heartbeat: tuple[int, str]
    """The time that the member wrote, and its process."""
    seen_at: float


class HeartbeatAges:
    def __init__(self) -> None:
        self._seen: dict[str, dict[str, SeenHeartbeat]] = {}

    def note(self, event: Stored | Removed, now: float) -> None:
        """Notes the heartbeats in an attribute that was stored, or forgets those of one that was removed."""
        if isinstance(event, Removed):
            self._seen.pop(event.key, None)
        elif isinstance(event.object, StreamAttribute):
            key = key_of(event.object)
            self._seen[key] = _seen(event.object.text, self._seen.get(key, {}), now)

    def ages_of(self, attribute: StreamAttribute, now: float) -> Mapping[str, float]:
        """Returns the age of the heartbeat of each member in seconds."""
        return {member: now - seen.seen_at for member, seen in self._seen.get(key_of(attribute), {}).items()}


def _seen(text: str, before: Mapping[str, SeenHeartbeat], now: float) -> dict[str, SeenHeartbeat]:
    # Imported for the first state object, because many clusters have none.
    from tailrace.cluster.stream_state.stream_state import StreamStateError, decode_group_state

    try:
        members = decode_group_state(text).members
    except StreamStateError:  # Something else than a member has written it. Members refuse it as well.
        return {}
    seen = {each.member_id: SeenHeartbeat((each.last_heartbeat_ms, each.process), now) for each in members}
    unchanged = {each for each, found in seen.items() if each in before and before[each].heartbeat == found.heartbeat}
    return seen | {each: before[each] for each in unchanged}

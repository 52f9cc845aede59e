"""Reads what the Streaming Controller (SC) responds about the state object of a stream."""

from collections.abc import Mapping

from tailrace.cluster.stream_state.stream_state import StreamRead, StreamStateError, decode_group_state
from tailrace.protocol.internal.read_stream_state import ReadStreamStateResponse

from .server_connection import RefusedError


def groups_of(response: ReadStreamStateResponse) -> Mapping[str, StreamRead]:
    """Returns the state of each group in the response. Raises RefusedError for a state that cannot be read."""
    groups: dict[str, StreamRead] = {}
    for each in response.groups:
        try:
            state = decode_group_state(each.state)
        except StreamStateError as error:
            raise RefusedError(f"the state of the group {each.group} cannot be read: {error}") from error
        ages_ms = {age.member_id: age.age_ms for age in each.ages}
        groups[each.group] = StreamRead(response.shards, response.replicas, state, each.version, ages_ms)
    return groups

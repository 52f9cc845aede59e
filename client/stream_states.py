"""What the Streaming Controller (SC) responds about the state object of a stream."""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.protocol.internal.read_stream_state import ReadStreamStateResponse


class StreamGroupState(Struct, frozen=True):
    """The attribute of one consumer group in the state object of a stream, as the SC has it."""

    version: int
    """The version, which a write of the attribute must name."""
    attribute: str
    """The attribute as JSON."""
    ages: Mapping[str, float]
    """For each member, the seconds since the SC first saw its last heartbeat."""


class StreamReading(Struct, frozen=True):
    """A stream and its state object, at one moment."""

    shards: int
    """The number of partitions of the topic."""
    replicas: int
    """The number of replicas that a deployed trigger of the group should have now, or 0 if there is no such trigger."""
    groups: Mapping[str, StreamGroupState]
    """By the name of the consumer group. A group without an attribute is not there; its version is 0."""


def reading_of(response: ReadStreamStateResponse) -> StreamReading:
    """Returns the content of a response."""
    groups = {
        each.group: StreamGroupState(each.version, each.state, {age.member_id: age.age_ms / 1000 for age in each.ages})
        for each in response.groups
    }
    return StreamReading(response.shards, response.replicas, groups)

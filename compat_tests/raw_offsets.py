"""Requests about groups' offsets, encoded by hand in every version (see `raw_groups`)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from raw import Connection
from raw_groups import METADATA, OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH, Body, ResponseReader

ILLEGAL_GENERATION, OFFSET_METADATA_TOO_LARGE, GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_ID = 22, 12, 86, 100
UNKNOWN_TOPIC_OR_PARTITION = 3
NO_OFFSET = -1
Topic = str | UUID
"""The name of a topic, or its id for versions that use only ids."""


class Committed(NamedTuple):
    offset: int
    metadata: str | None = ""
    leader_epoch: int = -1


class Fetched(NamedTuple):
    offset: int
    metadata: str | None = ""
    error: int = 0
    leader_epoch: int = -1


Places = Sequence[tuple[Topic, Sequence[int]]]


def commit(
    connection: Connection,
    version: int,
    group: str,
    offsets: Mapping[tuple[Topic, int], Committed],
    *,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    retention_ms: int = -1,
) -> dict[tuple[Topic, int], int]:
    """Commits the offsets, and returns the error of each partition."""
    body = Body(OFFSET_COMMIT, version).text(group).numbers("i", generation).text(member_id)
    if version >= 7:
        body.text(instance)
    if version <= 4:
        body.numbers("q", retention_ms)
    by_topic: dict[Topic, dict[int, Committed]] = {}
    for (topic, partition), committed in offsets.items():
        by_topic.setdefault(topic, {})[partition] = committed
    body.count(len(by_topic))
    for topic, partitions in by_topic.items():
        _name(body, topic)
        body.count(len(partitions))
        for partition, committed in partitions.items():
            body.numbers("iq", partition, committed.offset)
            if version >= 6:
                body.numbers("i", committed.leader_epoch)
            body.text(committed.metadata).end()
        body.end()
    answer = _ask(connection, body.end())
    if version >= 3:
        answer.number("i")
    errors: dict[tuple[Topic, int], int] = {}
    for _ in range(answer.count()):
        topic = _named(answer, version >= 10)
        for _ in range(answer.count()):
            partition = int(answer.number("i"))
            errors[topic, partition] = int(answer.number("h"))
            answer.end()
        answer.end()
    _finish(answer)
    return errors


class FetchedGroup(NamedTuple):
    error: int
    offsets: dict[tuple[Topic, int], Fetched]


def fetch(connection: Connection, version: int, group: str, places: Places | None) -> FetchedGroup:
    """Fetches the committed offsets of one group, in any version; without `places`, all of them."""
    if version >= 8:
        return fetch_groups(connection, version, [(group, places)])[group]
    body = Body(OFFSET_FETCH, version).text(group)
    _places(body, places)
    if version >= 7:
        body.numbers("?", False)
    answer = _ask(connection, body.end())
    if version >= 3:
        answer.number("i")
    offsets = _fetched(answer, version)
    error = int(answer.number("h")) if version >= 2 else 0
    _finish(answer)
    return FetchedGroup(error, offsets)


def fetch_groups(
    connection: Connection,
    version: int,
    groups: Sequence[tuple[str, Places | None]],
    *,
    member_id: str | None = None,
    epoch: int = -1,
) -> dict[str, FetchedGroup]:
    body = Body(OFFSET_FETCH, version).count(len(groups))
    for group, places in groups:
        body.text(group)
        if version >= 9:
            body.text(member_id).numbers("i", epoch)
        _places(body, places)
        body.end()
    answer = _ask(connection, body.numbers("?", True).end())
    answer.number("i")
    fetched = {}
    for _ in range(answer.count()):
        group = answer.text() or ""
        offsets = _fetched(answer, version)
        fetched[group] = FetchedGroup(int(answer.number("h")), offsets)
        answer.end()
    _finish(answer)
    return fetched


def delete(connection: Connection, group: str, places: Places) -> tuple[int, dict[tuple[Topic, int], int]]:
    """Deletes committed offsets; returns the error of the request, and the error of each partition."""
    body = Body(OFFSET_DELETE, 0).text(group).count(len(places))
    for topic, partitions in places:
        _name(body, topic)
        body.count(len(partitions)).numbers(f"{len(partitions)}i", *partitions)
    answer = _ask(connection, body)
    error = int(answer.number("h"))
    answer.number("i")
    errors: dict[tuple[Topic, int], int] = {}
    for _ in range(answer.count()):
        topic = _named(answer, False)
        for _ in range(answer.count()):
            partition = int(answer.number("i"))
            errors[topic, partition] = int(answer.number("h"))
    _finish(answer)
    return error, errors


def id_of(connection: Connection, topic: str) -> UUID:
    body = Body(METADATA, 12).count(1).numbers("16s", bytes(16)).text(topic).end().numbers("??", False, False).end()
    answer = _ask(connection, body)
    answer.number("i")
    for _ in range(answer.count()):
        answer.number("i"), answer.text(), answer.number("i"), answer.text(), answer.end()
    answer.text(), answer.number("i")
    assert answer.count() == 1 and answer.number("h") == 0 and answer.text() == topic
    return UUID(bytes=answer.number("16s"))


def _ask(connection: Connection, body: Body) -> ResponseReader:
    connection.send(body.framed("raw-committer"))
    return ResponseReader(body.api_key, body.version, connection.receive()[1])


def _finish(answer: ResponseReader) -> None:
    answer.end()
    assert answer.is_read()


def _name(body: Body, topic: Topic) -> None:
    if isinstance(topic, UUID):
        body.numbers("16s", topic.bytes)  # type: ignore[arg-type] # a number of sixteen bytes
    else:
        body.text(topic)


def _named(answer: ResponseReader, by_id: bool) -> Topic:
    return UUID(bytes=answer.number("16s")) if by_id else answer.text() or ""


def _places(body: Body, places: Places | None) -> None:
    if places is None:
        body.count(-1)
        return
    body.count(len(places))
    for topic, partitions in places:
        _name(body, topic)
        body.count(len(partitions)).numbers(f"{len(partitions)}i", *partitions).end()


def _fetched(answer: ResponseReader, version: int) -> dict[tuple[Topic, int], Fetched]:
    fetched: dict[tuple[Topic, int], Fetched] = {}
    for _ in range(answer.count()):
        topic = _named(answer, version >= 10)
        for _ in range(answer.count()):
            partition, offset = int(answer.number("i")), int(answer.number("q"))
            leader_epoch = int(answer.number("i")) if version >= 5 else -1
            metadata = answer.text()
            fetched[topic, partition] = Fetched(offset, metadata, int(answer.number("h")), leader_epoch)
            answer.end()
        answer.end()
    return fetched

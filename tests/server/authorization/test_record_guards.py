"""Produce and Fetch with access rules: what changes takes effect at the next request, on every path."""

from typing import Any
from uuid import UUID

import pytest
import trio
from authorized_spu import AuthorizedSpu, authorized_spu, rule
from simulation.client import WireClient
from spus import batch

from tailrace.broker.handlers.records.produce_shortcut import ProduceShortcut
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import Permission
from tailrace.security.acls.acl_codes import ResourceType as Res
from tailrace.server.client_connection import ClientConnection

WRITE, READ = (Res.TOPIC, Op.WRITE), (Res.TOPIC, Op.READ)
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
BY_NAME, BY_ID = 12, 13


def _data(authorized: AuthorizedSpu, name: str) -> TopicProduceData:
    topic = authorized.spu.cluster.topics.get(name)
    topic_id = UUID(int=5) if topic is None else topic.id
    return TopicProduceData(name, topic_id, [PartitionProduceData(0, batch(b"x"))])


async def _produce(
    client: WireClient, authorized: AuthorizedSpu, version: int, *names: str, acks: int = 1
) -> list[int]:
    data = [_data(authorized, name) for name in names]
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data)
    response: ProduceResponse = await client.request(ApiKey.PRODUCE, version, request)
    return [topic.partition_responses[0].error_code for topic in response.responses]


def _end(authorized: AuthorizedSpu, name: str = "topic") -> int:
    return authorized.running.replica(name).log.log_end


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
async def test_a_revoked_rule_stops_a_producer_whose_requests_take_the_shortcut(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    taken: list[bool] = []
    shortcut = ClientConnection._try_shortcut
    monkeypatch.setattr(
        ClientConnection,
        "_try_shortcut",
        lambda connection, frame: bool(taken.append(shortcut(connection, frame)) or taken[-1]),
    )
    async with authorized_spu() as authorized:
        await authorized.create()
        client = await authorized.client()
        assert await _produce(client, authorized, version, "topic") == [DENIED]
        assert await _produce(client, authorized, version, "topic") == [DENIED]
        authorized.allow(WRITE)
        for _ in range(4):
            assert await _produce(client, authorized, version, "topic") == [ErrorCode.NONE]
        assert taken[-2:] == [True, True], "the shortcut works with an authorizer"
        authorized.remove(WRITE)
        for _ in range(3):
            assert await _produce(client, authorized, version, "topic") == [DENIED]
        assert _end(authorized) == 4


async def test_a_shortcut_does_not_learn_what_is_denied(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        await authorized.create()
        asked: list[object] = []

        def refuse(topic: str | UUID, transactional_id: str | None) -> bool:
            asked.append((topic, transactional_id))
            return False

        shortcut = ProduceShortcut(authorized.spu, BY_NAME, refuse)
        client = await authorized.client()
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[_data(authorized, "topic")])
        frame = memoryview(bytearray(client.encode(ApiKey.PRODUCE, BY_NAME, request)))[4:]
        nothing: Any = None
        assert shortcut(frame, 1, nothing, nothing) is None
        assert shortcut(frame, 1, nothing, nothing) is None
        assert asked == [("topic", None)] * 2


async def test_records_for_allowed_topics_are_stored_beside_those_that_are_denied(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        await authorized.create("topic")
        await authorized.create("other")
        authorized.allow(WRITE)
        client = await authorized.client()
        codes = await _produce(client, authorized, BY_NAME, "other", "topic", "missing")
        assert sorted(codes) == [ErrorCode.NONE, DENIED, DENIED]
        codes = await _produce(client, authorized, BY_ID, "other", "topic", "missing")
        assert sorted(codes) == [ErrorCode.NONE, DENIED, ErrorCode.UNKNOWN_TOPIC_ID]
        assert (_end(authorized, "topic"), _end(authorized, "other")) == (2, 0)


async def test_an_id_is_refused_until_its_topic_is_known(autojump_clock: object) -> None:
    """The SPU has a replica, and cannot know which rules apply to it."""
    async with authorized_spu() as authorized:
        await authorized.create()
        data = _data(authorized, "topic")
        topic_id = data.topic_id
        authorized.spu.cluster.remove_topic(topic_id)
        assert authorized.spu.replicas.leading(topic_id, 0)
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])
        response = await authorized.request(ApiKey.PRODUCE, request)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        fetch = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0)])])
        fetched = await authorized.request(ApiKey.FETCH, fetch)
        assert fetched.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert authorized.spu.replicas.leading(topic_id, 0).log.log_end == 0


async def test_a_denied_record_without_acknowledgement_closes_the_connection(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        await authorized.create("topic")
        await authorized.create("other")
        authorized.allow(WRITE)
        for names in (("other",), ("other", "topic")):
            client = await authorized.client()
            data = [_data(authorized, name) for name in names]
            request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=data)
            await client.send(client.encode(ApiKey.PRODUCE, BY_NAME, request))
            assert await client.at_end()
        assert (_end(authorized, "topic"), _end(authorized, "other")) == (1, 0)


async def test_a_transactional_request_needs_its_id_first(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        await authorized.create()
        authorized.allow(WRITE)
        request = ProduceRequest("transaction", 1, 1000, [_data(authorized, "topic")])
        response = await authorized.request(ApiKey.PRODUCE, request)
        code = response.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_a_host_that_is_denied_is_denied_though_others_are_not(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        await authorized.create()
        authorized.allow(WRITE)
        client = await authorized.client()
        assert await _produce(client, authorized, BY_NAME, "topic") == [ErrorCode.NONE]
        authorized.allow(rule(*WRITE, permission=Permission.DENY, host=client.connection.local.host))
        assert await _produce(client, authorized, BY_NAME, "topic") == [DENIED]


# fetch


def _fetch(authorized: AuthorizedSpu, session: int, epoch: int, *names: str, wait_ms: int = 0) -> FetchRequest:
    topics = [
        FetchTopic(name, authorized.spu.cluster.topics[name].id, [FetchPartition(0, partition_max_bytes=1000)])
        for name in names
    ]
    return FetchRequest(
        session_id=session, session_epoch=epoch, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1000, topics=topics
    )


def _codes(response: FetchResponse, names: dict[UUID, str]) -> dict[str, int]:
    return {each.topic or names[each.topic_id]: each.partitions[0].error_code for each in response.responses}


@pytest.mark.parametrize("version", [BY_NAME, 18])
async def test_a_session_keeps_its_topics_and_tells_which_may_not_be_read(autojump_clock: object, version: int) -> None:
    async with authorized_spu() as authorized:
        await authorized.create("topic")
        await authorized.create("other")
        names = {topic.id: name for name, topic in authorized.spu.cluster.topics.items()}
        client = await authorized.client()

        async def fetch(session: int, epoch: int, *asked: str) -> FetchResponse:
            response: FetchResponse = await client.request(
                ApiKey.FETCH, version, _fetch(authorized, session, epoch, *asked)
            )
            return response

        authorized.allow(READ)
        first = await fetch(0, 0, "topic", "other")
        assert _codes(first, names) == {"topic": ErrorCode.NONE, "other": DENIED}
        session = first.session_id
        assert session
        other = rule(*READ, "other")
        authorized.allow(other)
        assert _codes(await fetch(session, 1), names) == {"other": ErrorCode.NONE}
        authorized.remove(other, READ)
        assert _codes(await fetch(session, 2), names) == {"topic": DENIED, "other": DENIED}
        authorized.allow(other, READ)
        assert _codes(await fetch(session, 3), names) == {"topic": ErrorCode.NONE, "other": ErrorCode.NONE}
        assert _codes(await fetch(session, 4), names) == {}


async def test_a_waiting_fetch_gets_no_records_if_the_rule_is_revoked_meanwhile(autojump_clock: object) -> None:
    async with authorized_spu() as authorized:
        await authorized.create("topic")
        authorized.allow(READ, WRITE)
        reader, writer = await authorized.client(), await authorized.client()
        names = {topic.id: name for name, topic in authorized.spu.cluster.topics.items()}
        await reader.send(reader.encode(ApiKey.FETCH, 18, _fetch(authorized, 0, -1, "topic", wait_ms=10_000)))
        await trio.testing.wait_all_tasks_blocked()
        authorized.remove(READ)
        assert await _produce(writer, authorized, BY_NAME, "topic") == [ErrorCode.NONE]
        response = await reader.response()
        assert _codes(response, names) == {"topic": DENIED}
        assert not response.responses[0].partitions[0].records

from collections.abc import Callable
from typing import Any

import pytest
import trio
from msgspec import Struct, field

from tailrace.broker.controller_link.forwarding import (
    AUTO_CREATE_SECONDS_MAX,
    FORWARD_MS_MAX,
    FORWARD_MS_MIN,
    PERMISSIVE_VERSION,
    Forwarding,
)
from tailrace.broker.controller_link.mirror_updater import MirrorUpdater
from tailrace.broker.controller_link.sc_connection import ScUnreachableError
from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.compile import decode, encode_whole
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, PartitionState, TopicState
from tailrace.protocol.internal.forward import ForwardRequest, ForwardResponse
from tailrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tailrace.security.identity.principal import Principal
from tailrace.server.request_context import ClientIdentity, RequestContext

A_NEWER_CODE = 9999
TOPIC = TopicId(int=7)
NEWEST = API_TABLE[ApiKey.CREATE_TOPICS].max_version


def _context(version: int = NEWEST) -> RequestContext:
    listener = ConnectedListener("PUBLIC", ("spu", 9005))
    return RequestContext(
        ApiKey.CREATE_TOPICS, version, 1, "me", listener, ClientIdentity("x"), 0.0, lambda context: None
    )


def _metadata(version: int, *names: str) -> ApplyMetadataRequest:
    topics = [TopicState(TOPIC, name, partitions=[PartitionState(0, 1, 0, [1], [1])]) for name in names]
    return ApplyMetadataRequest(False, version, topics=topics)


class _Sc(Struct):
    """Responds to every request for topics, with the metadata version 5."""

    answer: Callable[[CreateTopicsRequest], CreateTopicsResponse | Exception | None]
    asked: list[ForwardRequest] = field(default_factory=list)

    async def request(self, message: Any) -> Any:
        await trio.lowlevel.checkpoint()
        self.asked.append(message)
        request = decode(CreateTopicsRequest, message.api_version, message.body)
        answer = self.answer(request)
        if answer is None:
            await trio.sleep_forever()
        if isinstance(answer, Exception):
            raise answer
        return ForwardResponse(metadata_version=5, body=encode_whole(answer, message.api_version))


class _Spu:
    def __init__(self, answer: Callable[[CreateTopicsRequest], CreateTopicsResponse | Exception | None]) -> None:
        self.sc = _Sc(answer)
        self.cluster = Cluster()
        self.mirror = MirrorUpdater(self.cluster, SpuId(1))
        self.forwarding = Forwarding(self.sc, self.cluster, self.mirror)


def _created(request: CreateTopicsRequest) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name) for topic in request.topics])


REQUEST = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])


@pytest.mark.parametrize("version", [2, NEWEST])
async def test_the_answer_comes_in_the_clients_version_once_the_mirror_has_the_change(
    autojump_clock: object, version: int
) -> None:
    spu = _Spu(_created)
    answers = []

    async def forward() -> None:
        answers.append(await spu.forwarding.forward(_context(version), REQUEST, 60_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(forward)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == [], "the mirror does not have it"
        spu.mirror.apply(_metadata(5, "t"))
    response = decode(CreateTopicsResponse, version, answers[0].body)
    assert [topic.name for topic in response.topics] == ["t"]
    (asked,) = spu.sc.asked
    assert (asked.api_key, asked.api_version) == (ApiKey.CREATE_TOPICS, version)


@pytest.mark.parametrize(
    ("timeout_ms", "waited_ms"), [(0, FORWARD_MS_MIN), (-1, FORWARD_MS_MIN), (7000, 7000), (2**31 - 1, FORWARD_MS_MAX)]
)
async def test_a_controller_that_is_away_is_waited_for_as_long_as_the_client_says(
    autojump_clock: object, timeout_ms: int, waited_ms: int
) -> None:
    spu = _Spu(lambda request: None)
    started = trio.current_time()
    with pytest.raises(KafkaError, match="the Streaming Controller cannot be reached") as refused:
        await spu.forwarding.forward(_context(), REQUEST, timeout_ms)
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert trio.current_time() - started == pytest.approx(waited_ms / 1000)


async def test_a_mirror_that_does_not_follow_is_waited_for_as_long(autojump_clock: object) -> None:
    spu = _Spu(_created)
    with pytest.raises(KafkaError) as refused:
        await spu.forwarding.forward(_context(), REQUEST, 7000)
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_connection_that_breaks_is_said_at_once(autojump_clock: object) -> None:
    spu = _Spu(lambda request: ScUnreachableError("the connection broke"))
    with trio.fail_after(0.1), pytest.raises(KafkaError, match="the connection broke") as refused:
        await spu.forwarding.forward(_context(), REQUEST, 7000)
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("said", "code"),
    [(ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER), (A_NEWER_CODE, ErrorCode.UNKNOWN_SERVER_ERROR)],
)
async def test_what_the_controller_has_against_the_whole_request_is_passed_on(
    autojump_clock: object, said: int, code: ErrorCode
) -> None:
    class Refusing:
        async def request(self, message: Any) -> Any:
            await trio.lowlevel.checkpoint()
            return ForwardResponse(error_code=said, error_message="another one acts")

    cluster = Cluster()
    with pytest.raises(KafkaError, match="another one acts") as refused:
        await Forwarding(Refusing(), cluster, MirrorUpdater(cluster, SpuId(1))).forward(_context(), REQUEST, 7000)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (A_NEWER_CODE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_topics_that_a_client_asked_metadata_of_are_created_or_not_each_by_itself(
    autojump_clock: object, said: int, code: ErrorCode
) -> None:
    sentence = "too much like another"

    def answer(request: CreateTopicsRequest) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name="t", error_message=None),
                CreatableTopicResult(name="t.2", error_code=said, error_message=sentence),
            ]
        )

    spu = _Spu(answer)
    spu.mirror.apply(_metadata(5, "t"))
    wanted = [NewTopic("t", 2, 1, configs={"retention.ms": "1"}), NewTopic("t.2", 1, 1)]
    made, refused = await spu.forwarding.create_topics(wanted)
    assert made is spu.cluster.topics["t"]
    assert isinstance(refused, KafkaError)
    assert (refused.code, refused.message) == (code, sentence)
    asked = decode(CreateTopicsRequest, NEWEST, spu.sc.asked[0].body)
    assert [(topic.num_partitions, topic.replication_factor) for topic in asked.topics] == [(2, 1), (1, 1)]
    assert [(config.name, config.value) for config in asked.topics[0].configs] == [("retention.ms", "1")]


async def test_a_metadata_request_does_not_wait_long_for_a_controller_that_is_away(autojump_clock: object) -> None:
    spu = _Spu(lambda request: None)
    started = trio.current_time()
    (late,) = await spu.forwarding.create_topics([NewTopic("t", 1, 1)])
    assert isinstance(late, KafkaError)
    assert late.code == ErrorCode.LEADER_NOT_AVAILABLE
    assert trio.current_time() - started == pytest.approx(AUTO_CREATE_SECONDS_MAX)


async def test_clients_that_ask_for_a_late_topic_again_and_again_are_not_held_up_each_time(
    autojump_clock: object,
) -> None:
    spu = _Spu(lambda request: None)
    await spu.forwarding.create_topics([NewTopic("t", 1, 1)])
    started = trio.current_time()
    for _ in range(10):
        (late,) = await spu.forwarding.create_topics([NewTopic("t", 1, 1)])
        assert isinstance(late, KafkaError)
        assert late.code == ErrorCode.LEADER_NOT_AVAILABLE
    assert trio.current_time() == started
    assert len(spu.sc.asked) == 1


async def test_a_late_topic_holds_up_no_other_one_and_is_tried_again_after_a_while(autojump_clock: object) -> None:
    spu = _Spu(lambda request: None)
    spu.mirror.apply(_metadata(5))
    await spu.forwarding.create_topics([NewTopic("t", 1, 1)])
    spu.sc.answer = _created
    late, other = await spu.forwarding.create_topics([NewTopic("t", 1, 1), NewTopic("t.2", 1, 1)])
    asked = decode(CreateTopicsRequest, NEWEST, spu.sc.asked[-1].body)
    assert [topic.name for topic in asked.topics] == ["t.2"]
    assert isinstance(late, KafkaError)
    assert isinstance(other, KafkaError)
    assert (late.code, other.code) == (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    await trio.sleep(AUTO_CREATE_SECONDS_MAX)
    await spu.forwarding.create_topics([NewTopic("t", 1, 1)])
    asked = decode(CreateTopicsRequest, NEWEST, spu.sc.asked[-1].body)
    assert [topic.name for topic in asked.topics] == ["t"]


async def test_a_topic_that_was_deleted_again_is_unknown(autojump_clock: object) -> None:
    spu = _Spu(_created)
    spu.mirror.apply(_metadata(5))
    (gone,) = await spu.forwarding.create_topics([NewTopic("t", 1, 1)])
    assert isinstance(gone, KafkaError)
    assert gone.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_that_another_request_creates_is_waited_for(autojump_clock: object) -> None:
    def answer(request: CreateTopicsRequest) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="so it is")]
        )

    spu = _Spu(answer)
    spu.mirror.apply(_metadata(5))
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def create() -> None:
            assert await spu.forwarding.create_topics([NewTopic("t", 1, 1)]) == [spu.cluster.topics["t"]]

        await trio.testing.wait_all_tasks_blocked()
        spu.mirror.apply(_metadata(6, "t"))


async def test_the_controller_learns_who_the_client_is(autojump_clock: object) -> None:
    spu = _Spu(_created)
    spu.mirror.apply(_metadata(5, "t"))
    context = _context()
    context.client = ClientIdentity("[::1]:5", principal=Principal("User", "alice"), host="::1", protocol="SASL_SSL")
    context.client.mechanism, context.client.is_token = "SCRAM-SHA-256", True
    await spu.forwarding.forward(context, REQUEST, 7000)
    await spu.forwarding.create_topics([NewTopic("t", 1, 1)])
    of_client, of_spu = spu.sc.asked
    assert (of_client.principal, of_client.host, of_client.client_id) == ("User:alice", "::1", "me")
    assert (of_client.protocol, of_client.mechanism, of_client.is_token) == ("SASL_SSL", "SCRAM-SHA-256", True)
    assert (of_spu.principal, of_spu.host, of_spu.client_id) == ("", "", None)


async def test_created_topics_count_against_the_quota_of_the_client_that_asks_for_them(autojump_clock: object) -> None:
    def answer(request: CreateTopicsRequest) -> CreateTopicsResponse:
        response = _created(request)
        response.throttle_time_ms = 700
        return response

    spu, context = _Spu(answer), _context()
    context.client.principal = Principal("User", "alice")
    spu.mirror.apply(_metadata(5, "t"))
    assert await spu.forwarding.create_topics([NewTopic("t", 1, 1)], context) == [spu.cluster.topics["t"]]
    (asked,) = spu.sc.asked
    assert (asked.principal, asked.client_id, asked.api_version) == ("User:alice", "me", PERMISSIVE_VERSION)
    assert context.throttle_ms == 700

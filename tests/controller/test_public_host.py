import pytest
import trio.testing
from hosts import request_of
from running_workflow import put, registered, running_workflow

from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.public_host import ADVERTISED, KNOWN
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.compile import decode, encode
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.internal.forward import ForwardRequest
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, SC_PRIVATE_APIS, SPU_PRIVATE_APIS
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tailrace.server.handlers.api_versions import handle as api_versions


def body_of(request: object, version: int) -> bytes:
    return b"".join(bytes(part) for part in encode(request, version))  # type: ignore[arg-type]


async def store_with_one_spu() -> MemoryStore:
    store = MemoryStore()
    await put(store, *registered(1))
    return store


def test_the_sc_advertises_kafkas_requests_alone() -> None:
    assert not ADVERTISED.keys() & SC_OBJECT_APIS.keys()
    assert SC_OBJECT_APIS.keys() <= KNOWN.keys()
    assert not KNOWN.keys() & (SC_PRIVATE_APIS.keys() | SPU_PRIVATE_APIS.keys())


async def test_every_api_that_is_known_has_a_route() -> None:
    async with running_workflow() as running:
        for key, api in KNOWN.items():
            assert running.host.route(key, api.max_version) is not None
            assert running.host.route(key, api.max_version + 1) is None
        assert running.host.route(ApiKey.PRODUCE, 9) is None
        listed = api_versions(running.host, request_of(ApiKey.API_VERSIONS), ApiVersionsRequest("test", "1"))
        assert {each.api_key for each in listed.api_keys} == set(ADVERTISED)


async def test_a_forwarded_request_is_answered_in_its_own_version() -> None:
    async with running_workflow(await store_with_one_spu()) as running:
        await running.connect(1)
        request = CreateTopicsRequest([CreatableTopic("orders", 1, 1)], timeout_ms=1000)
        answer = await running.host.forward(ForwardRequest(ApiKey.CREATE_TOPICS, 5, body_of(request, 5)))
        response = decode(CreateTopicsResponse, 5, answer.body)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [("orders", ErrorCode.NONE)]
        assert answer.metadata_version == running.workflow.cluster.version
        assert running.spus.published[-1].topics, "the SPUs are told before the answer leaves"


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_topic_that_waits_for_spus_can_be_deleted(by_id: bool) -> None:
    async with running_workflow(await store_with_one_spu()) as running:
        await running.connect(1)
        await running.objects.create("topic", '{"name": "wide", "replicationFactor": 3}', 0)
        wide = running.workflow.local.topics["wide"]
        assert "wide" not in running.workflow.cluster.topics
        named = DeleteTopicState(None, wide.id) if by_id else DeleteTopicState("wide")
        request = DeleteTopicsRequest([named], timeout_ms=1000)
        answer = await running.host.forward(ForwardRequest(ApiKey.DELETE_TOPICS, 6, body_of(request, 6)))
        (deleted,) = decode(DeleteTopicsResponse, 6, answer.body).responses
        assert (deleted.error_code, deleted.name, deleted.topic_id) == (ErrorCode.NONE, "wide", wide.id)
        assert "wide" not in running.workflow.local.topics


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (ForwardRequest(ApiKey.METADATA, 9, b""), ErrorCode.UNSUPPORTED_VERSION),
        (ForwardRequest(ApiKey.PRODUCE, 9, b""), ErrorCode.UNSUPPORTED_VERSION),
        (ForwardRequest(ApiKey.CREATE_TOPICS, 99, b""), ErrorCode.UNSUPPORTED_VERSION),
        (ForwardRequest(ApiKey.CREATE_TOPICS, 7, b"\x7f"), ErrorCode.INVALID_REQUEST),
        (
            ForwardRequest(ApiKey.CREATE_TOPICS, 5, body_of(CreateTopicsRequest(), 5), principal="alice"),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
async def test_requests_that_cannot_be_forwarded_are_refused(asked: ForwardRequest, code: ErrorCode) -> None:
    async with running_workflow() as running:
        with pytest.raises(KafkaError) as refused:
            await running.host.forward(asked)
        assert refused.value.code is code


async def test_a_topic_that_a_metadata_request_wants_is_in_the_making_after_a_while(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_workflow(await store_with_one_spu()) as running:
        await running.connect(1)
        running.spus.silent = {1}
        (outcome,) = await running.host.create_topics([NewTopic("orders", 1, 1)])
        assert isinstance(outcome, KafkaError)
        assert outcome.code is ErrorCode.LEADER_NOT_AVAILABLE
        assert trio.current_time() == pytest.approx(2, abs=0.1)

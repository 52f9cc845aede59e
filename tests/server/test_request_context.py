from collections.abc import Callable, Mapping
from functools import partial

import pytest
from msgspec.structs import replace

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.headers import decode_response, response_encoder
from tailrace.protocol.messages.find_coordinator import FindCoordinatorResponse
from tailrace.server.request_context import ClientIdentity, RequestContext, request_without_connection


def _context(
    heard: list[RequestContext],
    *,
    api_version: int = 4,
    table: Mapping[int, Api] = API_TABLE,
    let_leave: Callable[[], None] = lambda: None,
) -> RequestContext:
    return RequestContext(
        ApiKey.FIND_COORDINATOR,
        api_version,
        77,
        "me",
        ConnectedListener("PUBLIC", ("localhost", 9092)),
        ClientIdentity("192.0.2.1:5"),
        12.5,
        heard.append,
        response_encoder(table[ApiKey.FIND_COORDINATOR], api_version),
        let_leave,
    )


@pytest.mark.parametrize("version", [0, 3])
def test_a_response_is_encoded_for_the_version_that_asked(version: int) -> None:
    heard: list[RequestContext] = []
    context = _context(heard, api_version=version)
    assert context.parts is None
    context.respond(FindCoordinatorResponse(host="somewhere", port=9005))
    assert heard == [context]
    assert context.parts is not None
    frame = b"".join(context.parts)  # type: ignore[arg-type]
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, response = decode_response(ApiKey.FIND_COORDINATOR, version, frame[4:])
    assert (correlation_id, response.host, response.port) == (77, "somewhere", 9005)


def test_a_response_is_encoded_by_the_table_of_its_server() -> None:
    apis = {ApiKey.FIND_COORDINATOR: replace(API_TABLE[ApiKey.FIND_COORDINATOR], flexible_response_from=5)}
    sizes = []
    for table in (API_TABLE, apis):
        context = _context([], table=table)
        context.respond(FindCoordinatorResponse())
        sizes.append(sum(len(part) for part in context.parts or ()))
    assert sizes[0] == sizes[1] + 1, "the longer header"


def test_a_response_may_be_prepared_before_it_is_sent() -> None:
    heard: list[RequestContext] = []
    left: list[str] = []
    contexts = [_context(heard, let_leave=partial(left.append, "all")) for _ in range(2)]
    for context in contexts:
        context.abandon = lambda: None
        send = context.prepare(FindCoordinatorResponse(host="somewhere"))
        assert context.parts is not None
        assert context.abandon is None
    assert (heard, left) == (contexts, [])
    send()
    assert left == ["all"]


def test_requests_that_are_answered_together_each_get_a_response() -> None:
    heard: list[RequestContext] = []
    context = _context(heard, api_version=0)
    context.respond_each([(77, FindCoordinatorResponse(host="a")), (78, FindCoordinatorResponse(host="b"))])
    assert heard == [context]
    sent = b"".join(context.parts or ())  # type: ignore[arg-type]
    size = len(sent) // 2
    answers = [decode_response(ApiKey.FIND_COORDINATOR, 0, sent[start + 4 : start + size]) for start in (0, size)]
    assert [(correlation_id, response.host) for correlation_id, response in answers] == [(77, "a"), (78, "b")]


def test_encoded_bytes_are_sent_unchanged() -> None:
    heard: list[RequestContext] = []
    context = _context(heard)
    context.respond_with([b"ready"])
    assert context.parts == [b"ready"]
    assert heard == [context]


@pytest.mark.parametrize("reason", [None, "a record was refused"])
def test_a_request_without_a_response_is_finished_too(reason: str | None) -> None:
    heard: list[RequestContext] = []
    context = _context(heard)
    context.respond_nothing(close=reason)
    assert list(context.parts or ()) == []
    assert context.parts is not None
    assert context.close_after == reason
    assert heard == [context]


def test_a_request_has_one_response() -> None:
    context = _context([])
    context.respond_nothing()
    with pytest.raises(AssertionError):
        context.respond_nothing()


def test_a_response_that_cannot_be_encoded_does_not_fail_its_sender() -> None:
    heard: list[RequestContext] = []
    mistakes: list[Exception] = []
    context = _context(heard, api_version=0)
    context._on_failed = mistakes.append
    context.abandon = context.hurry = lambda: None
    context.respond(FindCoordinatorResponse(host="x" * 2**15))
    context.prepare(FindCoordinatorResponse(host="x" * 2**15))()
    context.respond_each([(77, FindCoordinatorResponse()), (78, FindCoordinatorResponse(host="x" * 2**15))])
    assert (heard, context.parts, len(mistakes)) == ([], None, 3)
    assert context.abandon is context.hurry is None, "there is nothing more to be had"


def test_callbacks_are_dropped_with_the_response() -> None:
    context = _context([])
    context.abandon = lambda: None
    context.respond_nothing()
    assert context.abandon is None


def test_a_context_without_a_connection_does_not_respond() -> None:
    context = request_without_connection(ApiKey.FIND_COORDINATOR, 3, ClientIdentity("an SPU"))
    assert (context.api_version, context.client.address) == (3, "an SPU")
    for respond in (partial(context.respond, FindCoordinatorResponse()), context.respond_nothing):
        with pytest.raises(AssertionError):
            respond()

"""Tests responses with the result of rare work: a message, or a body that another server has encoded."""

from typing import Any

from hosts import request_of

from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.codec.headers import encode_response
from tailrace.protocol.messages.find_coordinator import FindCoordinatorResponse
from tailrace.server.rare_responses import respond_with
from tailrace.server.request_context import EncodedBody, RequestContext

API = API_TABLE[ApiKey.FIND_COORDINATOR]
VERSION = 3
ENCODED = EncodedBody(encode_whole(FindCoordinatorResponse(host="here"), VERSION))


def _answered(message: object, amend: Any = None) -> tuple[RequestContext, list[object]]:
    """Responds to a request; returns its context, and the messages that were encoded for it."""
    encoded: list[object] = []

    def encode(correlation_id: int, response: object) -> list[bytes]:
        encoded.append(response)
        return [b"encoded here"]

    context = request_of(API.key, VERSION)
    context._encode, context._on_response, context.amend = encode, lambda context: None, amend
    respond_with(context, message, API)
    return context, encoded


def test_a_message_is_encoded() -> None:
    context, encoded = _answered(FindCoordinatorResponse(host="here"))
    assert context.parts == [b"encoded here"]
    assert encoded == [FindCoordinatorResponse(host="here")]


def test_an_encoded_body_is_not_read() -> None:
    context, encoded = _answered(ENCODED)
    assert not encoded
    whole = encode_response(API.key, VERSION, context.correlation_id, FindCoordinatorResponse(host="here"))
    assert b"".join(context.parts or ()) == b"".join(bytes(part) for part in whole)


def test_a_body_whose_items_a_guard_corrects_is_read() -> None:
    def amend(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        response.host = "there"
        return response

    context, encoded = _answered(ENCODED, amend)
    assert context.parts == [b"encoded here"]
    assert encoded == [FindCoordinatorResponse(host="there")]

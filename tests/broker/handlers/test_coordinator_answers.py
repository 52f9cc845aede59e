"""How coordinators' answers become responses: of one answer, or of several in the order of the request."""

from typing import Any

from hosts import request_of

from tailrace.broker.handlers.coordinator_answers import Gathering, Responding
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.server.request_context import RequestContext

REFUSAL = KafkaError(ErrorCode.NOT_COORDINATOR)


def recording() -> tuple[RequestContext, list[Any]]:
    context = request_of(ApiKey.LIST_GROUPS)
    responses: list[Any] = []
    context._encode = lambda correlation_id, message: responses.append(message) or (b"",)  # type: ignore[func-returns-value]
    return context, responses


def test_one_answer_is_the_response() -> None:
    context, responses = recording()
    Responding(context, lambda error: error.code).respond("yes")
    assert responses == ["yes"]


def test_one_answer_is_turned_into_a_response() -> None:
    context, responses = recording()
    Responding(context, lambda error: error.code, str.upper).respond("yes")
    assert responses == ["YES"]


def test_a_refusal_has_its_response() -> None:
    context, responses = recording()
    Responding(context, lambda error: error.code).refuse(REFUSAL)
    assert responses == [ErrorCode.NOT_COORDINATOR]


def test_an_abandoned_request_gets_no_response() -> None:
    context, responses = recording()
    waiter = Responding(context, lambda error: error.code)
    assert context.abandon is not None
    context.abandon()
    waiter.respond("too late")
    assert responses == []


def test_parts_have_the_order_of_the_request_whenever_they_arrive() -> None:
    context, responses = recording()
    gathering = Gathering(context, list)
    first, second, third = (gathering.part(lambda error: error.code) for _ in range(3))
    second.refuse(REFUSAL)
    gathering.start()
    third.respond(3)
    assert responses == []
    first.respond(1)
    assert responses == [[1, ErrorCode.NOT_COORDINATOR, 3]]


def test_a_response_leaves_at_the_start_if_all_parts_are_there() -> None:
    context, responses = recording()
    gathering = Gathering(context, list)
    gathering.part(lambda error: error.code).respond(1)
    assert responses == []
    gathering.start()
    assert responses == [[1]]


def test_a_response_may_have_no_parts() -> None:
    context, responses = recording()
    Gathering(context, list).start()
    assert responses == [[]]


def test_an_abandoned_request_gets_no_parts() -> None:
    context, responses = recording()
    gathering = Gathering(context, list)
    part = gathering.part(lambda error: error.code)
    gathering.start()
    assert context.abandon is not None
    context.abandon()
    part.respond(1)
    assert responses == []

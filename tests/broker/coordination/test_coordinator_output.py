"""Tests of what is left after the effects of a coordinator were taken."""

import pytest
from grouping import Asked

from tailrace.broker.coordination.coordinator_output import CoordinatorOutput, PendingResponse, RecordProducer
from tailrace.broker.coordination.moment import Moment
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def test_effects_are_taken_once() -> None:
    output, asked, acted = CoordinatorOutput[str](), Asked(), list[Moment]()
    assert not output
    output.append("a")
    output.respond(asked, 1)
    output.when_committed(acted.append)
    output.respond_at_once(asked, 2)
    taken = output.take()
    assert not output
    assert taken.records == ["a"]
    assert taken.responses == [PendingResponse(asked, 1)]
    assert taken.actions == [acted.append]
    assert taken.responses_at_once == [PendingResponse(asked, 2)]


def test_an_action_alone_is_an_effect() -> None:
    output = CoordinatorOutput[str]()
    output.when_committed(lambda moment: None)
    assert output


def test_an_error_is_sent_as_a_refusal() -> None:
    output, refused, answered = CoordinatorOutput[str](), Asked(), Asked()
    output.refuse(refused, KafkaError(ErrorCode.UNKNOWN_MEMBER_ID))
    output.respond(answered, "yes")
    for response in (*output.responses, *output.responses_at_once):
        response.send()
    assert refused.error is not None and refused.error.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answered.reply == "yes"


def test_records_belong_to_a_transaction_as_a_whole_or_not_at_all() -> None:
    output, producer = CoordinatorOutput[str](), RecordProducer(7, 1)
    output.append_in_transaction("a", producer)
    output.append_in_transaction("b", producer)
    with pytest.raises(AssertionError):
        output.append("c")
    with pytest.raises(AssertionError):
        output.append_in_transaction("c", RecordProducer(8, 1))
    taken = output.take()
    assert (taken.records, taken.producer) == (["a", "b"], producer)
    output.append("c")
    with pytest.raises(AssertionError):
        output.append_in_transaction("d", producer)
    assert output.take().producer is None

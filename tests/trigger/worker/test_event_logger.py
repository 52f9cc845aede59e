import json
import logging

import pytest
import structlog
from structlog.testing import capture_logs

from tailrace.trigger.work import Shard
from tailrace.trigger.worker.context import Context
from tailrace.trigger.worker.event import TriggerInfo
from tailrace.trigger.worker.event_decoder import make_event
from tailrace.trigger.worker.event_logger import EventLogger, ForwardingHandler, LogSettings

PLACE = {"topic": "orders", "shard": 3, "offset": 7}


@pytest.fixture
def context() -> Context:
    context = Context(0, "billing", "kafka-cluster", lambda event, output: None, lambda shard, offset: None)
    trigger = TriggerInfo("kafka-cluster", "billing")
    context.handled = make_event(b"", shard=Shard("orders", 3), offset=7, trigger=trigger, verdicts=NoVerdicts())
    return context


class NoVerdicts:
    def acknowledge(self, event: object) -> None: ...

    def fail(self, event: object, reason: str) -> None: ...


def test_each_line_carries_topic_shard_and_offset(context: Context) -> None:
    with capture_logs() as lines:
        context.logger.info("paid")
        context.logger.warn_with("odd", amount=3)
    assert lines[0] == {"event": "paid", "log_level": "info", **PLACE}
    assert lines[1] == {"event": "odd", "log_level": "warning", "amount": 3, **PLACE}


def test_a_field_cannot_take_the_name_of_one_of_ours(context: Context) -> None:
    with capture_logs() as lines:
        context.logger.info("paid", offset="theirs", event="theirs")
    assert lines == [{"event": "paid", "log_level": "info", "offset_": "theirs", "event_": "theirs", **PLACE}]


def test_bound_fields_are_in_each_later_line(context: Context) -> None:
    context.logger.bind(version=1)
    with capture_logs() as lines:
        context.logger.info("paid", amount=3)
    assert lines == [{"event": "paid", "log_level": "info", "version": 1, "amount": 3, **PLACE}]


def test_arguments_fill_the_message_and_wrong_ones_do_no_harm(context: Context) -> None:
    with capture_logs() as lines:
        context.logger.info("Hello %s", "you")
        context.logger.info("Hello", "you", 5)
        context.logger.info("100 %")
    assert [line["event"] for line in lines] == ["Hello you", "Hello 'you' 5", "100 %"]


def test_no_line_fails_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    class Strange:
        def __repr__(self) -> str:
            raise RuntimeError

    before = structlog.get_config()
    try:
        logger = EventLogger(lambda: None, LogSettings("info", True))
        logger.info(Strange())
        logger.info("Hello %s", Strange())
        logger.info("paid", amounts={(1, 2): 3}, offset=b"x")
        logger.exception("nothing was raised")
        library = logging.Logger("some.library")
        library.addHandler(ForwardingHandler(logger))
        library.warning("retry %d", "often")
        library.warning("retry %(count)d", {"count": 3})
    finally:
        structlog.configure(**before)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == [
        "<Strange that cannot be shown>",
        "Hello %s <Strange that cannot be shown>",
        "paid",
        "nothing was raised",
        "retry %d 'often'",
        "retry 3",
    ]
    assert lines[2]["fields"] == "{'amounts': {(1, 2): 3}, 'offset': b'x'}"


def test_an_exception_is_written_with_its_traceback(context: Context) -> None:
    with capture_logs() as lines:
        try:
            raise ValueError("no such customer")
        except ValueError as error:
            context.logger.exception("failed")
            assert lines[0]["exc_info"][1] is error
    assert lines[0]["log_level"] == "error"


def test_outside_a_handler_a_line_has_no_place(context: Context) -> None:
    context.handled = None
    with capture_logs() as lines:
        context.logger.info("starting")
    assert lines == [{"event": "starting", "log_level": "info"}]


def test_lines_of_libraries_take_the_same_way(context: Context) -> None:
    library = logging.Logger("some.library")
    library.addHandler(ForwardingHandler(context.logger))
    with capture_logs() as lines:
        library.warning("retry %d", 2)
        library.critical("gave up")
    assert lines[0] == {"event": "retry 2", "log_level": "warning", "logger": "some.library", **PLACE}
    assert lines[1]["log_level"] == "error"

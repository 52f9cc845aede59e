from datetime import UTC, datetime

from tailrace.protocol.batches.records import Record, build_batch
from tailrace.trigger.work import Shard
from tailrace.trigger.worker.event import Event, TriggerInfo
from tailrace.trigger.worker.event_decoder import make_event, open_batch

INFO = TriggerInfo("kafka-cluster", "billing")


class Verdicts:
    def __init__(self) -> None:
        self.said: list[tuple[str, Event, str]] = []

    def acknowledge(self, event: Event) -> None:
        self.said.append(("acknowledged", event, ""))

    def fail(self, event: Event, reason: str) -> None:
        self.said.append(("failed", event, reason))


def test_an_event_has_the_parts_of_its_record() -> None:
    event = make_event(
        b"body",
        key=b"k" * 200,
        headers={"Content-Type": b"text/plain", "none": None},
        timestamp_ms=1_700_000_000_123,
        shard=Shard("orders", 3),
        offset=7,
        attempt=2,
        trigger=INFO,
        verdicts=Verdicts(),
    )
    assert (event.body, event.key, event.offset, event.shard_id, event.topic) == (b"body", b"k" * 200, 7, 3, "orders")
    assert event.headers == {"Content-Type": b"text/plain", "none": None}
    assert event.timestamp == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
    assert (event.timestamp_ms, event.attempt, event.id) == (1_700_000_000_123, 2, "orders/3/7")
    assert (event.get_header("content-type"), event.get_header("other")) == (b"text/plain", None)
    assert (event.content_type, event.path, event.size, event.trigger) == ("text/plain", "orders", 4, INFO)


def test_an_event_has_what_nuclio_handlers_may_ask_for() -> None:
    event = make_event(b"", shard=Shard("t", 0), trigger=INFO, verdicts=Verdicts())
    asked = (event.method, event.url, event.type, event.type_version, event.version, event.fields)
    assert asked == ("", "", "", "", "", {})
    event.note = "handlers may set attributes"  # type: ignore[attr-defined]


def test_a_record_without_key_value_time_and_headers() -> None:
    event = make_event(None, shard=Shard("t", 0), trigger=INFO, verdicts=Verdicts())
    assert (event.body, event.key, event.timestamp, event.headers, event.size) == (None, None, None, {}, 0)
    assert event.content_type == "application/octet-stream"


def test_a_time_that_no_date_reaches_is_none() -> None:
    event = make_event(b"", timestamp_ms=2**62, shard=Shard("t", 0), trigger=INFO, verdicts=Verdicts())
    assert (event.timestamp, event.timestamp_ms) == (None, 2**62)


def test_the_broker_s_time_is_that_of_all_records_of_its_batch() -> None:
    batch = bytes(build_batch([Record(0, 1, None, b""), Record(1, 2, None, b"")], append_time=99))
    decoder = open_batch(batch, Shard("t", 0), INFO, Verdicts())
    assert decoder is not None
    assert [event.timestamp_ms for event in decoder.next_events(9, 0, 9)] == [99, 99]


def test_only_the_event_that_was_tried_before_counts_attempts() -> None:
    batch = bytes(build_batch([Record(offset, 0, None, b"") for offset in (4, 5, 6)], base_offset=4))
    decoder = open_batch(batch, Shard("t", 0), INFO, Verdicts(), retried=5, attempt=3)
    assert decoder is not None
    assert [event.attempt for event in decoder.next_events(9, 0, 9)] == [1, 3, 1]


def test_a_handler_s_word_about_an_event_reaches_the_worker() -> None:
    verdicts = Verdicts()
    event = make_event(b"", shard=Shard("t", 0), trigger=INFO, verdicts=verdicts)
    event.acknowledge()
    event.fail("no such customer")
    assert verdicts.said == [("acknowledged", event, ""), ("failed", event, "no such customer")]

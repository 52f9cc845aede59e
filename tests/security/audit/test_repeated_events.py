"""Equal events become one line with a count."""

from msgspec.structs import replace

from tailrace.security.audit.audit_event import AuditEvent, AuditKind
from tailrace.security.audit.repeated_events import RepeatedEvents


def _event(time_ms: int, resource: str = "a") -> AuditEvent:
    return AuditEvent(AuditKind.AUTHORIZATION, time_ms, resource=resource)


def test_the_first_is_written_and_equal_ones_are_counted() -> None:
    events = RepeatedEvents(100, 10)
    assert events.add("a", _event(0)) == [_event(0)]
    assert [events.add("a", _event(time)) for time in (1, 2, 99)] == [[], [], []]
    assert events.add("b", _event(50, "b")) == [_event(50, "b")]
    assert events.due(99) == []
    assert events.due(100) == [replace(_event(99), count=3)]
    assert events.due(150) == [], "the other was not repeated"
    assert events.add("a", _event(160)) == [_event(160)]


def test_a_late_one_writes_the_count_and_begins_again() -> None:
    events = RepeatedEvents(100, 10)
    for time in (0, 1):
        events.add("a", _event(time))
    assert events.add("a", _event(200)) == [_event(1), _event(200)]
    assert events.add("a", _event(201)) == []
    assert events.rest() == [_event(201)]
    assert events.rest() == []


def test_the_oldest_is_forgotten_when_there_are_too_many() -> None:
    events = RepeatedEvents(100, 2)
    for time, key in enumerate("aaab"):
        events.add(key, _event(time, key))
    assert events.add("c", _event(4, "c")) == [replace(_event(2), count=2), _event(4, "c")]
    assert events.add("a", _event(5)) == [_event(5)]

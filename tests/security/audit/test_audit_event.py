"""Events of the audit log."""

from tailrace.security.audit.audit_event import AuditEvent, AuditKind, Outcome, fields_of, is_of_event, time_text


def test_a_line_has_the_fields_that_have_a_value() -> None:
    event = AuditEvent(
        AuditKind.AUTHORIZATION, 1_700_000_000_123, Outcome.DENIED, "User:alice", resource="TOPIC:orders"
    )
    assert fields_of(event) == {
        "time": "2023-11-14T22:13:20.123Z",
        "event": "authorization",
        "outcome": "denied",
        "principal": "User:alice",
        "resource": "TOPIC:orders",
    }
    assert fields_of(AuditEvent(AuditKind.LOST, 0, count=7)) == {"time": time_text(0), "event": "lost", "count": 7}


def test_long_texts_are_cut() -> None:
    assert len(str(fields_of(AuditEvent(AuditKind.CHANGE, 0, resource="x" * 9999))["resource"])) == 500


def test_lines_about_the_log_are_no_events() -> None:
    kinds = [kind for kind in AuditKind if not is_of_event({"event": kind})]
    assert kinds == [AuditKind.BEGIN, AuditKind.CHECKPOINT]

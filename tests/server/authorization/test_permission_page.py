"""docs/security.md has the table of permissions."""

from product import ROOT

from tailrace.server.authorization.permission_page import PAGE, lines, written


def test_the_page_has_the_table() -> None:
    page = (ROOT / PAGE).read_text()
    assert page == written(page), "run python -m tailrace.server.authorization.permission_page"


def test_lines_tell_what_is_needed_and_what_happens_otherwise() -> None:
    text = "\n".join(lines())
    assert "| Heartbeat | Read on Group | GROUP_AUTHORIZATION_FAILED |" in text
    assert "| CreateTopics | Create on Topic or Create on Cluster | TOPIC_AUTHORIZATION_FAILED |" in text
    assert "IdempotentWrite on Cluster or Write on Topic of any name (idempotent)" in text
    assert "| ApiVersions | everybody | |" in text

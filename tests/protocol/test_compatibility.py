from pathlib import Path

from tailrace.protocol.compatibility import page


def test_the_page_matches_the_table() -> None:
    checked_in = Path(__file__).parents[2] / "docs" / "compatibility.md"
    assert checked_in.read_text() == page(), "run python -m tailrace.protocol.compatibility > docs/compatibility.md"


def test_a_row_shows_our_versions_beside_those_of_kafka() -> None:
    assert "| Produce | 0 | 3–13 (advertised from 0) | 0–13 |" in page()
    assert "| DescribeTopicPartitions | 75 | 0 | 0 |" in page()

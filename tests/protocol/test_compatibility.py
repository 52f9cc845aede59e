from pathlib import Path

from tailrace.protocol.compatibility import page


def test_the_page_is_what_the_table_says() -> None:
    checked_in = Path(__file__).parents[2] / "docs" / "compatibility.md"
    assert checked_in.read_text() == page(), "run python -m tailrace.protocol.compatibility > docs/compatibility.md"


def test_a_row_shows_what_we_answer_beside_kafka() -> None:
    assert "| Produce | 0 | 3–13 (advertised from 0) | 0–13 |" in page()
    assert "| DescribeTopicPartitions | 75 | 0 | 0 |" in page()

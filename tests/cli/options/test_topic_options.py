import argparse
from pathlib import Path

import pytest

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.options.topic_options import create_options, rows_of_file, wanted_topics


def given(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    create_options(parser)
    return parser.parse_args(words)


def test_only_given_options_are_in_the_document() -> None:
    assert wanted_topics(given("orders")) == [{"name": "orders"}]
    words = ("--partitions", "0", "--config", "retention.ms=5")
    assert wanted_topics(given("orders", *words)) == [
        {"name": "orders", "partitions": 0, "configs": {"retention.ms": "5"}}
    ]


def test_a_file_of_replicas_may_have_any_form(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    for text in ("[[1, 2]]", "{0: [1, 2]}", "- 0: [1, 2]"):
        path.write_text(text)
        assert rows_of_file(str(path)) == {0: [1, 2]}


@pytest.mark.parametrize("words", [(), ("--file", "x", "--partitions", "2")])
def test_a_topic_is_described_by_options_or_by_a_file(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        wanted_topics(given(*words))

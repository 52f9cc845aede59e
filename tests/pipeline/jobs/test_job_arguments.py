import argparse

import pytest

from tailrace.pipeline.jobs.job_arguments import (
    add_bootstrap,
    add_master,
    add_output,
    add_segments,
    add_topics,
    positive_number,
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add_topics(parser)
    add_segments(parser, "--segments", "Data directories of SPUs")
    add_bootstrap(parser)
    add_master(parser)
    add_output(parser)
    return parser


def test_what_is_not_given_has_its_default() -> None:
    assert vars(_parser().parse_args([])) == {
        "topic": [],
        "segments": None,
        "bootstrap": None,
        "master": None,
        "output": "table",
    }


def test_data_directories_may_be_repeated_and_separated_by_commas() -> None:
    given = _parser().parse_args(["--segments", "a,b", "--segments", "c"])
    assert given.segments == ["a", "b", "c"]


@pytest.mark.parametrize("words", [["--segments", ","], ["--output", "text"]])
def test_what_means_nothing_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args(words)
    assert words[0] in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ""])
def test_a_positive_number_is_whole_and_above_0(text: str) -> None:
    assert positive_number("7") == 7
    with pytest.raises(argparse.ArgumentTypeError, match="no whole number above 0"):
        positive_number(text)

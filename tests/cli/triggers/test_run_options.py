"""Tests the choice between a replica and Spark, and the options that both read."""

import argparse

import pytest

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.triggers.run_options import add_engine, check_without_engine, member_id_of, metrics_address
from tailrace.runtime.network import Address


def _parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_engine(parser)
    return parser.parse_args(words)


def test_a_replica_is_the_default() -> None:
    parsed = _parsed()
    assert parsed.engine == "replica"
    check_without_engine(parsed)


@pytest.mark.parametrize(
    "words", [["--checkpoint", "c"], ["--master", "m"], ["--packages", "p"], ["--available-now"], ["-o", "json"]]
)
def test_options_of_spark_are_refused_for_a_replica(words: list[str]) -> None:
    with pytest.raises(UsageError, match="has no effect without --engine spark"):
        check_without_engine(_parsed(*words))


def test_names_have_a_default_and_are_checked() -> None:
    assert (member_id_of(None, "spark"), member_id_of("mine", "spark")) == ("spark", "mine")
    with pytest.raises(UsageError, match="--replica"):
        member_id_of("", "spark")


def test_metrics_may_be_off() -> None:
    assert metrics_address(None) is metrics_address("off") is None
    assert metrics_address("127.0.0.1:9100") == Address("127.0.0.1", 9100)

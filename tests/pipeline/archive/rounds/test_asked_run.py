import argparse
from pathlib import Path

import pytest

from tailrace.pipeline.archive.rounds.archive_sources import BrokerSource, SegmentSource
from tailrace.pipeline.archive.rounds.asked_run import RunAsked, asked
from tailrace.pipeline.archive.rounds.run_arguments import configure
from tailrace.pipeline.archive.stores.archive_folder import archive_at
from tailrace.pipeline.jobs.job_errors import JobError


def read(*words: str) -> RunAsked:
    parser = argparse.ArgumentParser()
    configure(parser)
    return asked(parser.parse_args(words))


def test_one_topic_from_the_default_brokers(tmp_path: Path) -> None:
    found = read("orders", "orders", "--to", str(tmp_path / "archive"))
    assert (found.settings.topics, found.settings.begin, found.settings.until_ms) == (("orders",), "earliest", None)
    assert (found.settings.chunk_bytes, found.every_seconds, found.master) == (64 * 2**20, None, None)
    assert isinstance(found.source, BrokerSource)
    assert archive_at(str(tmp_path / "archive")) == found.folder.archive


def test_all_topics_from_segments_again_and_again(tmp_path: Path) -> None:
    words = ("--segments", "/a", "--segments", "/b", "--every", "5m", "--chunk-mib", "8", "--from", "latest")
    found = read("--all", "--to", str(tmp_path), *words)
    assert isinstance(found.source, SegmentSource)
    assert (found.settings.topics, found.settings.begin, found.every_seconds) == (None, "latest", 300.0)
    assert found.settings.chunk_bytes == 8 * 2**20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name topics, or archive all of them with --all"),
        (("orders", "--all"), "name topics, or archive all of them with --all"),
        (("orders", "--until", "2026-01-01", "--every", "5m"), "--until has no effect after the first round"),
        (("orders", "--from", "2026-02-01", "--until", "2026-01-01"), "--until must be later than --from"),
        (("orders", "--until", "latest"), "--until cannot be 'latest'"),
        (("orders", "--from", "soon"), "--from cannot be 'soon'"),
        (("orders", "--every", "5"), "--every cannot be '5'"),
        (("orders", "--chunk-mib", "0"), "--chunk-mib must be from 1 to 1024"),
    ],
)
def test_arguments_without_a_meaning_are_refused(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(JobError, match=message):
        read(*words, "--to", str(tmp_path / "archive"))
    assert not (tmp_path / "archive").exists()

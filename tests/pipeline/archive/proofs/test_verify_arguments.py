import argparse
from pathlib import Path

import pytest
from archive_files import write_archive

from tailrace.pipeline.archive.proofs.verify_arguments import VerifyAsked, asked, configure
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.settings import SettingsError


def _asked(*words: str) -> VerifyAsked:
    parser = argparse.ArgumentParser()
    configure(parser)
    return asked(parser.parse_args(words))


def test_brokers_are_asked_unless_the_archive_is_checked_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAILRACE_BOOTSTRAP", raising=False)
    write_archive(tmp_path)
    directory = str(tmp_path)
    assert _asked(directory).brokers == ("127.0.0.1:9092",)
    assert _asked(directory, "--bootstrap", "one:1,two:2").brokers == ("one:1", "two:2")
    assert _asked(directory, "--offline", "--master", "local[1]") == VerifyAsked(directory, (), (), "local[1]")
    assert _asked(directory, "--segments", "one", "--segments", "two") == VerifyAsked(
        directory, (), ("one", "two"), None
    )


def test_what_is_wrong_is_said_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="is no archive"):
        _asked(str(tmp_path), "--offline")
    with pytest.raises(SettingsError):
        _asked(str(tmp_path), "--bootstrap", "nowhere")

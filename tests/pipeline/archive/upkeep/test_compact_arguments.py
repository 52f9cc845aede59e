import argparse
from pathlib import Path

import pytest
from archive_files import write_archive

from tailrace.pipeline.archive.upkeep.compact_arguments import CompactAsked, asked, configure
from tailrace.pipeline.jobs.job_errors import JobError


def _asked(*words: str) -> CompactAsked:
    parser = argparse.ArgumentParser(exit_on_error=False)
    configure(parser)
    return asked(parser.parse_args(words))


def test_a_target_is_given_in_mebibytes(tmp_path: Path) -> None:
    write_archive(tmp_path)
    assert _asked(str(tmp_path)) == CompactAsked(str(tmp_path), 128 * 2**20, None)
    assert _asked(str(tmp_path), "--target-mib", "1", "--master", "local[1]") == CompactAsked(
        str(tmp_path), 2**20, "local[1]"
    )
    with pytest.raises(argparse.ArgumentError, match="'0' is no whole number above 0"):
        _asked(str(tmp_path), "--target-mib", "0")


def test_a_directory_that_is_no_archive_is_refused_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="is no archive"):
        _asked(str(tmp_path))

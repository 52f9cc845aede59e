"""The arguments, and the files that an audit writes; compat_tests/spark/ runs them with Spark."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from audited_spus import ThreeSpus, run_here

from tailrace.pipeline.audit import audit_arguments
from tailrace.pipeline.audit.audit_arguments import configure, run_audit
from tailrace.pipeline.audit.audit_report import AuditResult
from tailrace.pipeline.audit.auditing import audit_with
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.settings import SettingsError


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Audits without Spark."""
    opened: list[Any] = []

    def audit(spark: object, *arguments: Any, **options: Any) -> AuditResult:
        return audit_with(run_here, *arguments, **options)

    def open_session(*arguments: Any) -> None:
        opened.append(arguments)

    monkeypatch.setattr(audit_arguments, "audit", audit)
    monkeypatch.setattr(audit_arguments, "open_session", open_session)
    return opened


def _parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(words)


async def test_an_audit_writes_its_files(tmp_path: Path, opened: list[Any]) -> None:
    await ThreeSpus(tmp_path / "spus").write()
    files = ("--parquet", str(tmp_path / "out" / "deep"), "--metrics", str(tmp_path / "audit.prom"))
    result = run_audit(_parse(str(tmp_path / "spus"), "--master", "local[1]", "--topic", "events", *files))
    assert result.is_ok
    assert opened == [("audit", "local[1]")]
    assert sorted(path.name for path in (tmp_path / "out" / "deep").iterdir()) == ["copies.parquet", "findings.parquet"]
    assert 'tailrace_pipeline_audit_copies{verdict="equal"} 3.0' in (tmp_path / "audit.prom").read_text()
    assert result.text().endswith("all copies of each partition are equal")


async def test_the_number_of_replicas_is_checked(tmp_path: Path) -> None:
    await ThreeSpus(tmp_path).write()
    assert run_audit(_parse(str(tmp_path), "--replicas", "3")).is_ok
    assert not run_audit(_parse(str(tmp_path), "--replicas", "4")).is_ok


async def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    await ThreeSpus(tmp_path / "spus").write()
    with pytest.raises(JobError, match=r"none/audit\.prom cannot be written: No such file"):
        run_audit(_parse(str(tmp_path / "spus"), "--metrics", str(tmp_path / "none" / "audit.prom")))


def test_wrong_arguments_start_nothing(opened: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    run = partial(_parse, "/data")
    for words in (("--replicas", "0"), ("--replicas", "3", "--sc", "a:1"), ("--output", "yaml")):
        with pytest.raises(SystemExit) as ended:
            run(*words)
        assert ended.value.code == 2
    with pytest.raises(SettingsError, match="--sc: 'nowhere' is not HOST:PORT"):
        run_audit(run("--sc", "nowhere"))
    assert opened == []
    assert "'0' is no whole number above 0" in capsys.readouterr().err

"""Audit logs are found in and below a directory."""

from pathlib import Path

from audit_log_files import write_log

from tailrace.cli.security.audit_directories import audit_directories, lines_of
from tailrace.runtime.files import RealFiles


def test_the_logs_of_all_servers_below_a_directory_are_found(tmp_path: Path) -> None:
    for name in ("spu-1", "sc"):
        write_log(tmp_path / name)
    expected = [str(tmp_path / name / "audit") for name in ("sc", "spu-1")]
    assert audit_directories(RealFiles(), str(tmp_path)) == expected
    assert audit_directories(RealFiles(), expected[0]) == expected[:1]
    assert audit_directories(RealFiles(), str(tmp_path / "sc")) == expected[:1]
    assert audit_directories(RealFiles(), str(tmp_path / "none")) == []


def test_a_file_is_split_at_ends_of_lines_only() -> None:
    assert lines_of(b"a\rb\nc") == [b"a\rb\n", b"c"]
    assert lines_of(b"a\n") == [b"a\n"]
    assert lines_of(b"") == []

"""`tailrace audit verify` finds what was done to a log after it was written."""

import json
from pathlib import Path

import pytest
from audit_log_files import write_log

from tailrace.cli.main import main
from tailrace.security.audit.audit_signatures import new_private_pem, signer_of


def test_an_intact_log_is_told_with_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path / "sc")
    assert main(["audit", "verify", str(tmp_path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{tmp_path}/sc/audit: intact, 3 events"
    end = second.removeprefix("end of the log: ")
    assert main(["audit", "verify", str(tmp_path / "sc" / "audit"), "--expect", end]) == 0
    assert main(["audit", "verify", str(tmp_path / "sc"), "--expect", f"8:{'a' * 64}"]) == 1
    assert "line 8 with the expected hash is not in the log" in capsys.readouterr().out


def test_damage_is_told_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_log(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"User:bob"', b'"User:eve"'))
    assert main(["audit", "verify", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"damage  {tmp_path}/audit: {path.name} line 5 (number 5) does not fit its hash" in out
    assert "1 fault found, 3 events" in out
    assert main(["audit", "verify", str(tmp_path), "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["intact"], document["last"], len(document["faults"])) == (False, 8, 1)


def test_a_truncated_log_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_log(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))
    assert main(["audit", "verify", str(tmp_path)]) == 1
    assert "lines 7 to 8 are missing at the end; the log was truncated" in capsys.readouterr().out


def test_another_key_does_not_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path)
    key = tmp_path / "other.pem"
    key.write_bytes(signer_of(new_private_pem()).public_pem())
    assert main(["audit", "verify", str(tmp_path), "--key", str(key)]) == 1
    assert "is of another key" in capsys.readouterr().out
    assert main(["audit", "verify", str(tmp_path), "--key", str(tmp_path / "audit" / "signing-key.pem")]) == 2
    assert "cannot verify signatures: it is not a public Ed25519 key" in capsys.readouterr().err


def test_what_cannot_be_verified_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "verify", str(tmp_path)]) == 2
    assert f"there is no audit log in {tmp_path}; turn it on" in capsys.readouterr().err
    for name in ("a", "b"):
        write_log(tmp_path / name)
    assert main(["audit", "verify", str(tmp_path), "--expect", f"8:{'a' * 64}"]) == 2
    assert main(["audit", "verify", str(tmp_path), "--expect", "8"]) == 2
    err = capsys.readouterr().err
    assert "--expect is about one log" in err
    assert "expected LINE:HASH" in err
    assert main(["audit", "verify", str(tmp_path)]) == 0
    assert main(["audit", "verify", str(tmp_path), "--key", str(tmp_path / "none")]) == 2

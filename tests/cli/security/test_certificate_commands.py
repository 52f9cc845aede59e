"""`tailrace certificate` on real files; a server and a client then trust each other with them."""

import json
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from certificates import WRONG_ADDRESS, malformed_authority

from tailrace.cli.main import main
from tailrace.runtime.tls.certificate_loading import load_certificate

Capture = pytest.CaptureFixture[str]


def run(*words: str) -> int:
    return main(["certificate", *words])


def shown(capsys: Capture, path: Path) -> dict[str, object]:
    capsys.readouterr()
    assert run("show", str(path), "--output", "json") == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)[0]
    return found


def handshake(directory: Path, server: str, client: str, host: str) -> None:
    """Lets a server and a client shake hands in memory. Raises ssl.SSLError."""
    ends = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(directory / "ca.pem"))
    accepting.verify_mode = ssl.CERT_REQUIRED
    connecting = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    for context, name in ((accepting, server), (connecting, client)):
        load_certificate(context, (directory / name).read_bytes())
    sides = (
        connecting.wrap_bio(*ends, server_hostname=host),
        accepting.wrap_bio(*reversed(ends), server_side=True),
    )
    for _ in range(3):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()


def test_a_server_and_a_client_trust_each_other(tmp_path: Path, capsys: Capture) -> None:
    assert run("make", str(tmp_path), "--spu", "7", "--host", "broker7.example") == 0
    assert "Made an authority" in capsys.readouterr().out
    assert run("make", str(tmp_path), "--user", "alice") == 0
    handshake(tmp_path, "spu-7.pem", "alice.pem", "broker7.example")
    with pytest.raises(ssl.SSLError):
        handshake(tmp_path, "spu-7.pem", "alice.pem", "other.example")
    assert shown(capsys, tmp_path / "spu-7.pem")["hosts"] == ["spu-7.tailrace", "broker7.example"]
    assert (tmp_path / "spu-7.pem").stat().st_mode & 0o077 == 0
    assert (tmp_path / "ca-key.pem").stat().st_mode & 0o077 == 0


def test_a_renewed_certificate_keeps_its_names_and_lives_longer(tmp_path: Path, capsys: Capture) -> None:
    assert run("make", str(tmp_path), "--days", "10") == 0
    before = shown(capsys, tmp_path / "server.pem")
    hosts = before["hosts"]
    assert isinstance(hosts, list)
    assert {"sc.tailrace", "spu-1.tailrace", "localhost"} <= set(hosts)
    assert run("renew", str(tmp_path / "server.pem"), "--days", "100") == 0
    after = shown(capsys, tmp_path / "server.pem")
    assert (after["name"], after["hosts"]) == (before["name"], hosts)
    assert (before["daysLeft"], after["daysLeft"]) == (9, 99)
    assert before["sha256"] != after["sha256"]


def test_the_table_says_when_a_certificate_ends(tmp_path: Path, capsys: Capture) -> None:
    assert run("make", str(tmp_path), "--sc") == 0
    capsys.readouterr()
    assert run("show", str(tmp_path / "sc.pem")) == 0
    text = capsys.readouterr().out
    assert "364 days left" in text
    assert "PRIVATE KEY" not in text


def test_a_malformed_certificate_is_named_by_its_number(tmp_path: Path, capsys: Capture) -> None:
    assert run("make", str(tmp_path), "--sc") == 0
    with (tmp_path / "ca.pem").open("ab") as file:
        file.write(malformed_authority(WRONG_ADDRESS))
    assert run("show", str(tmp_path / "ca.pem")) == 1
    assert "certificate show: certificate 2 of the file cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("make", "DIR"), 1, "server.pem exists"),
        (("make", "DIR", "--user", "a/b"), 1, "cannot be the name of a file"),
        (("make", "DIR", "--user", "ca"), 1, "cannot be the name of a file"),
        (("make", "DIR", "--user", "alice", "--host", "x"), 1, "--host has no effect"),
        (("show", "DIR/none.pem"), 2, "none.pem: No such file"),
        (("show", "DIR/ca-key.pem"), 1, "no certificate in PEM"),
        (("renew", "DIR/ca.pem"), 1, "is an authority"),
        (("renew", "DIR/server.pem", "--authority", "DIR/none"), 1, "has no authority"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], status: int, reason: str, tmp_path: Path, capsys: Capture) -> None:
    assert run("make", str(tmp_path)) == 0
    assert run(*(word.replace("DIR", str(tmp_path)) for word in words)) == status
    assert reason in capsys.readouterr().err

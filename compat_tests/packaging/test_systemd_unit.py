"""The systemd unit is valid, hardened, and allows every system call that a server makes."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from kafka import KafkaConsumer, KafkaProducer

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "tailrace@.service"
INSTALLED = "/usr/local/lib/tailrace/bin/tailrace"
EXPOSURE_MAX = 20
"""The highest exposure, in tenths, that `systemd-analyze security` may find: below 2.0 is "OK"."""
RUN_SECONDS_MAX = 60
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1

_needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def _analyze(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=RUN_SECONDS_MAX
    )


def _unit(directory: Path, text: str) -> Path:
    """Writes the unit of an SPU, with the path of the command that is installed here."""
    unit = directory / "tailrace@spu.service"
    unit.write_text(text.replace(INSTALLED, tailrace()[0]))
    return unit


@_needs_systemd
def test_systemd_accepts_the_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    unit = _unit(tmp_path, UNIT.read_text())
    verified = _analyze("verify", unit)
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = _analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit)
    assert rated.returncode == 0, rated.stdout.splitlines()[-1]


@_needs_systemd
def test_the_checks_find_what_is_wrong(tmp_path: Path) -> None:
    assert "Unknown key" in _analyze("verify", _unit(tmp_path, UNIT.read_text().replace("UMask", "UMusk"))).stderr
    soft = re.sub(r"^(SystemCall|Protect|Private|Restrict)\w+=.*$", "", UNIT.read_text(), flags=re.MULTILINE)
    unit = _unit(tmp_path, soft)
    assert _analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit).returncode != 0


def _allowed(*names: str) -> set[str]:
    """Returns the system calls of sets such as @system-service."""
    calls: set[str] = set()
    for name in names:
        listed = _analyze("syscall-filter", "--no-pager", name)
        assert listed.returncode == 0, listed.stderr
        for line in listed.stdout.splitlines()[1:]:
            entry = line.strip()
            if entry.startswith("@"):
                calls |= _allowed(entry)
            elif entry and not entry.startswith("#"):
                calls.add(entry)
    return calls


@_needs_systemd
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_server_makes_only_system_calls_that_the_unit_allows(tmp_path: Path) -> None:
    filters = re.findall(r"^SystemCallFilter=(~?)(@[\w-]+)$", UNIT.read_text(), re.MULTILINE)
    allowed = _allowed(*(name for inverted, name in filters if not inverted))
    allowed -= _allowed(*(name for inverted, name in filters if inverted))
    counted = tmp_path / "calls"
    command = tailrace("up", "--data", str(tmp_path / "data"), "--public", "127.0.0.1:0", *FREE_PORTS)
    server = Server(tmp_path, "up", READY_LINE)
    bootstrap = server.start(["strace", "--follow-forks", "--summary-only", "--output", str(counted), *command])[1]
    try:
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        for _ in range(3):
            producer.send("orders", bytes(300_000)).get(RUN_SECONDS_MAX)
        producer.close()
        consumer = KafkaConsumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        assert len(next(consumer).value) == 300_000
        consumer.close()
        # strace does not pass signals on, and ends with the status of the server.
        (child,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        assert server.wait() == 0
    finally:
        server.kill()
    made = set(re.findall(r"(\w+)$", counted.read_text().partition("syscall\n")[2], re.MULTILINE)) - {"total"}
    assert {"sendfile", "fdatasync", "epoll_wait"} <= made
    made.discard("fchown")  # SQLite calls it for root alone, and the unit runs as another user
    assert made <= allowed, made - allowed


def test_a_server_needs_no_memory_that_is_writable_and_executable(tmp_path: Path) -> None:
    """Denies such memory to the child as MemoryDenyWriteExecute does."""
    assert "MemoryDenyWriteExecute=yes" in UNIT.read_text()
    if ctypes.CDLL(None).prctl(PR_SET_MDWE + 1, 0, 0, 0, 0) < 0:
        pytest.skip("this kernel is too old")
    script = f"""
import ctypes, os, sys
assert ctypes.CDLL(None).prctl({PR_SET_MDWE}, {PR_MDWE_REFUSE_EXEC_GAIN}, 0, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
    command = tailrace("up", "--data", str(tmp_path / "data"), "--public", "127.0.0.1:0", *FREE_PORTS)
    server = Server(tmp_path, "up", READY_LINE)
    try:
        server.start([sys.executable, "-c", script, *command])
        assert server.stop() == 0
    finally:
        server.kill()

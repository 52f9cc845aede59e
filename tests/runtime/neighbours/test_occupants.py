"""Tests with real sockets and files that the process that holds one is named."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tailrace.runtime.files import RealFiles
from tailrace.runtime.neighbours.occupants import directory_in_use, in_use, process_on_port, process_with_lock


def test_the_process_that_listens_on_a_port_is_found() -> None:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family, socket.SOCK_STREAM) as listening:
            listening.bind((host, 0))
            port = listening.getsockname()[1]
            assert process_on_port(port) is None, "nothing listens yet"
            listening.listen()
            assert process_on_port(port) == os.getpid()


def test_a_lock_file_names_the_process_that_holds_it(tmp_path: Path) -> None:
    files, path = RealFiles(), str(tmp_path / "lock")
    assert process_with_lock(files, path) is None
    Path(path).write_text("12345678 and more from before")
    assert process_with_lock(files, path) is None
    lock = files.lock(path)
    assert lock is not None
    assert process_with_lock(files, path) == os.getpid()
    said = directory_in_use(files, "/data", path)
    assert said.startswith(f"/data is in use by process {os.getpid()} (")
    assert said.endswith("or choose another directory with --data")
    lock.release()


def test_a_process_is_named_with_its_command_and_how_to_stop_it() -> None:
    words = [sys.executable, "-c", "print(flush=True); input()", "a\nb", "x" * 100]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # before its interpreter runs, the child may have no command line
        text = in_use("the address", child.pid, "another program")
        child.communicate(b"\n")
    assert text.startswith(f"the address is in use by process {child.pid} (")
    assert text.endswith(f"…): stop it with `kill {child.pid}`")
    assert "\n" not in text


def test_a_process_that_cannot_be_seen_is_another_one() -> None:
    assert in_use("/data", None, "another program") == "/data is in use by another program: stop it"
    assert in_use("/data", 2**31 - 1, "another program") == "/data is in use by another program: stop it"

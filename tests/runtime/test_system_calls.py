"""The system calls that send and sync records, and their substitutes."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.runtime.system_calls import SENDING, SENT_AT_ONCE_BYTES_MAX, SYNCING, send_copied, send_file

CONTENT = bytes(range(256)) * 4096


@pytest.mark.parametrize("send", [send_file, send_copied])
def test_the_substitute_for_sendfile_is_equivalent(send: Callable[[int, int, int, int], int], tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(CONTENT)
    near, far = socket.socketpair()
    with open(tmp_path / "log", "rb") as file, near, far:
        near.setblocking(False)
        received, position, end = bytearray(), 1000, len(CONTENT) - 5
        while position < end:
            try:
                position += send(near.fileno(), file.fileno(), position, end - position)
            except BlockingIOError:
                received += far.recv(65536)
        while len(received) < end - 1000:
            received += far.recv(65536)
        assert received == CONTENT[1000:end]
        assert send(near.fileno(), file.fileno(), len(CONTENT), 10) == 0, "the end of the file"


def test_a_copy_holds_only_a_part_of_a_large_range(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(CONTENT)
    with open(tmp_path / "log", "rb") as file, open(tmp_path / "copy", "wb") as copy:
        assert send_copied(copy.fileno(), file.fileno(), 0, len(CONTENT)) == SENT_AT_ONCE_BYTES_MAX


@pytest.mark.skipif(not hasattr(os, "sendfile"), reason="nothing to choose on this platform")
def test_linux_uses_sendfile_and_fdatasync() -> None:
    assert (SENDING, SYNCING) == ("sendfile", "fdatasync")

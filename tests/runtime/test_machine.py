import os
import resource

import pytest

from tailrace.runtime import machine


def test_the_process_uses_less_than_the_machine_has() -> None:
    used, most, descriptors = machine.memory_used_bytes(), machine.memory_bytes_max(), machine.open_descriptors()
    assert used is not None
    assert most is not None
    assert 1_000_000 < used < most
    assert descriptors is not None
    assert 3 <= descriptors < resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_an_open_file_counts() -> None:
    before = machine.open_descriptors()
    assert before is not None
    with open(os.devnull):
        assert machine.open_descriptors() == before + 1


def test_what_the_system_does_not_tell_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_STATUS_PATH", "_DESCRIPTORS_PATH", "_MEMORY_LIMIT_PATH"):
        monkeypatch.setattr(machine, name, "/nowhere/x")
    assert machine.memory_used_bytes() is None
    assert machine.open_descriptors() is None
    assert machine.memory_bytes_max() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

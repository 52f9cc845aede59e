"""The number of usable cores, by what the system says."""

import os
from pathlib import Path

import pytest

from tailrace.runtime import cores


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", 4.0),
        ("150000 100000", 1.5),
        ("50000 100000", 0.5),
        ("900000 100000", 4.0),
        ("something else", 4.0),
        ("0 0", 4.0),
        (None, 4.0),
    ],
)
def test_a_container_may_have_less_than_the_machine(
    quota: str | None, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 5})
    file = tmp_path / "cpu.max"
    if quota is not None:
        file.write_text(quota + "\n")
    monkeypatch.setattr(cores, "_QUOTA", str(file))
    assert cores.usable_cores() == expected

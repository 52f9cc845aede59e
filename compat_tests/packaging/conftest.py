"""The wheel and the source archive, built once for all test workers."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD_SECONDS_MAX = 300


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the directory with the source archive, and with the wheel that was made from it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    directory = shared / "dist"
    # A build writes into the directory of the sources, so only one may run at a time.
    with open(shared / "dist.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            unfinished = shared / "unfinished"
            build = [sys.executable, "-m", "build", "--outdir", unfinished, ROOT]
            subprocess.run(build, check=True, capture_output=True, timeout=BUILD_SECONDS_MAX)
            unfinished.rename(directory)
    return directory


@pytest.fixture(scope="session")
def wheel(archives: Path) -> Path:
    """Returns the wheel."""
    (wheel,) = archives.glob("*.whl")
    return wheel

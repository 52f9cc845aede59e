"""The wheel and the source archive, built once per test worker."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD_SECONDS_MAX = 300


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the directory with the source archive, and with the wheel that was made from it."""
    directory = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--outdir", directory, ROOT]
    subprocess.run(build, check=True, capture_output=True, timeout=BUILD_SECONDS_MAX)
    return directory


@pytest.fixture(scope="session")
def wheel(archives: Path) -> Path:
    """Returns the wheel."""
    (wheel,) = archives.glob("*.whl")
    return wheel

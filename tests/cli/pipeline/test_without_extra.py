"""Commands without the extra for Spark: they show their help, and say what to install."""

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder


class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "pyarrow", "pyspark", "deltalake", "pyiceberg", "fastavro"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())
import importlib.util

found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in ("numpy", "pyarrow", "pyspark") else found(name)
from tailrace.cli.main import main, whole_parser

whole_parser()
sys.exit(main(sys.argv[1:]))
"""


def run(*words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT, *words], capture_output=True, text=True, cwd=directory)


@pytest.mark.parametrize(
    "words",
    [
        ("pipeline", "archive", "run", "orders", "--to", "archive"),
        ("pipeline", "archive", "verify", "archive"),
        ("pipeline", "archive", "compact", "archive"),
        ("pipeline", "audit", "data"),
        ("pipeline", "replay", "--from-segments", "data", "--topic", "a", "--to-topic", "b", "--map", "map"),
        ("pipeline", "verify-replay", "--map", "map"),
        ("pipeline", "target-offset", "0/1", "--map", "map"),
    ],
)
def test_a_job_names_what_to_install(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*words, directory=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "is not installed. Install it with `pip install 'tailrace[spark]'`" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_each_command_has_its_help(tmp_path: Path) -> None:
    done = run("pipeline", "archive", "run", "--help", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--chunk-mib" in done.stdout

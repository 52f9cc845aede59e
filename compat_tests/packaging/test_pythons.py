"""The wheel installs and works with each Python that the package names, as far as this machine has it.

The Python of this process runs all other tests.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS_MAX = 110
RUN_SECONDS_MAX = 60
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
CLASSIFIER = "Programming Language :: Python :: 3."

# A round trip of a stock client, with a broker of that Python.
ROUND_TRIP = """
from kafka import KafkaConsumer, KafkaProducer
from tailrace.testing import Broker

with Broker() as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type="gzip")
    producer.send("orders", b"order 1")
    producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    assert next(consumer).value == b"order 1"
    consumer.close()
print("done")
"""


def _named_versions() -> list[str]:
    """Returns the versions among the classifiers, such as 3.11."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return ["3." + each.removeprefix(CLASSIFIER) for each in project["classifiers"] if each.startswith(CLASSIFIER)]


def _interpreter(version: str) -> str | None:
    """Returns a Python of a version: on the path, or one that pyenv has installed."""
    of_pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python3"))
    for candidate in (shutil.which(f"python{version}"), *map(str, of_pyenv)):
        if candidate is None:
            continue
        ran = subprocess.run([candidate, "-c", VERSION], capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
        if ran.stdout.strip() == version:
            return candidate
    return None


@pytest.mark.parametrize(
    "version", sorted(set(_named_versions()) - {f"{sys.version_info.major}.{sys.version_info.minor}"})
)
def test_a_stock_client_works_with_a_broker_of_each_python(version: str, wheel: Path, tmp_path: Path) -> None:
    interpreter = _interpreter(version)
    if interpreter is None:
        pytest.skip(f"this machine has no Python {version}")
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run([interpreter, "-m", "venv", "--without-pip", python.parents[1]], check=True, timeout=RUN_SECONDS_MAX)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, wheel, "kafka-python"], check=True, timeout=INSTALL_SECONDS_MAX)
    ran = subprocess.run([python, "-c", ROUND_TRIP], capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
    assert ran.stdout == "done\n", ran.stderr


def test_the_oldest_named_version_is_the_oldest_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={_named_versions()[0]}"

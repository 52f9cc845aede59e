"""Fetches the jars of Apache Kafka's broker and tools with the Ivy that PySpark brings: Java and pip are all it takes.

The versions are pinned in jars.xml. The jars stay in the user's cache folder; TAILRACE_KAFKA_JARS names a folder that
already holds them. `python -m peer.jars` fetches them and prints where they are.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
KAFKA_VERSION = "4.3.1"
FETCH_SECONDS_MAX = 600


def java() -> str:
    """The java command: that of JAVA_HOME, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def class_path() -> str:
    return str(jars() / "*")


def jars() -> Path:
    """The folder with the jars, fetched first if need be; safe to call from many processes at once."""
    if given := os.environ.get("TAILRACE_KAFKA_JARS"):
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"
    folder = cache / f"apache-kafka-{KAFKA_VERSION}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "apache-kafka.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                _fetch_into(folder)
    return folder


def _fetch_into(folder: Path) -> None:
    """All or nothing: the jars get their final place once every one is there."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fetched = Path(scratch, "jars")
        command = [
            *(java(), f"-Dcache={scratch}/cache", "-jar", str(_ivy())),
            *("-settings", str(HERE / "ivysettings.xml"), "-ivy", str(HERE / "jars.xml")),
            *("-retrieve", f"{fetched}/[artifact]-[revision].[ext]", "-warn"),
        ]
        ivy = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
        if ivy.returncode != 0:
            raise RuntimeError(f"the jars of Apache Kafka could not be fetched:\n{ivy.stdout}{ivy.stderr}")
        shutil.move(fetched, folder)


def _ivy() -> Path:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise RuntimeError("PySpark, whose Ivy fetches the jars, is not installed: make install")
    return next(Path(spark.origin).parent.glob("jars/ivy-*.jar"))


if __name__ == "__main__":
    print(jars())

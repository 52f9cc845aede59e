"""Downloads the jars of Apache Kafka's broker and tools, of Kafka Streams and of Kafka Connect, with PySpark's Ivy.

It needs only Java and pip. jars.xml, streams.xml and connect.xml pin the versions. The jars stay in the user's cache
directory. TAILRACE_KAFKA_JARS names a directory that already has those of jars.xml. `python -m peer.jars` downloads all
and prints where they are.
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
    """Returns the java command of JAVA_HOME, or the first one on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def class_path() -> str:
    return str(jars() / "*")


def jars() -> Path:
    """Returns the directory with the jars, and downloads them first if they are missing.

    Many processes may call it at the same time.
    """
    if given := os.environ.get("TAILRACE_KAFKA_JARS"):
        return Path(given)
    return _cached("apache-kafka", HERE / "jars.xml")


def streams_class_path() -> str:
    """Returns the class path of Kafka Streams with the clients that it needs, and downloads its jar first."""
    return f"{class_path()}:{_cached('kafka-streams', HERE / 'streams.xml') / '*'}"


def connect_class_path() -> str:
    """Returns the class path of Kafka Connect and MirrorMaker, and downloads their jars first."""
    return f"{class_path()}:{_cached('kafka-connect', HERE / 'connect.xml') / '*'}"


def _cached(name: str, wanted: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"
    folder = cache / f"{name}-{KAFKA_VERSION}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                _fetch_into(folder, wanted)
    return folder


def _fetch_into(folder: Path, wanted: Path) -> None:
    """Downloads the jars. They appear in the directory only when all of them are there."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fetched = Path(scratch, "jars")
        command = [
            *(java(), f"-Dcache={scratch}/cache", "-jar", str(_ivy())),
            *("-settings", str(HERE / "ivysettings.xml"), "-ivy", str(wanted)),
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
    print(streams_class_path())
    print(connect_class_path())

"""Downloads kafka-python's own integration tests with pip, and runs them against our broker.

They are part of the source distribution of the installed version. They are not ours to publish, so they stay in the
user's cache directory. `python -P -m kafka_python.own_suite` downloads them and prints their location.
"""

import fcntl
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct
from secured_broker import SecuredBroker

PROJECT = "kafka-python"
BROKER_VERSION = "4.3"
"""The newest broker version that the suite knows, which decides about its tests and request versions."""
BROKER_ID = 0
"""The broker id that one of the tests assumes when it places new partitions."""
BROKER_SETTINGS = {"num.partitions": "4", "group.min.session.timeout.ms": "1000"}
"""The settings of the suite's own brokers, as far as tests depend on them."""
SECURITY_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "listener.name.public_2.ssl.client.auth": "requested",
}
"""The settings of the suite's own brokers with security. Its clients have no certificates."""
FETCH_SECONDS_MAX = 300
RUN_SECONDS_MAX = 100
# The source distribution lacks the module that starts brokers. The tests only need its names.
SERVICE = """\
class ExternalService:
    def __init__(self, host, port):
        pass

    def stop(self):
        pass

    def dump_logs(self):
        pass


SpawnedService = None
"""
# If kafka-python 3.0 adds a topic while it waits for metadata, it forgets the topic for five minutes when the response
# arrives, whatever the broker. A test that subscribes a new consumer does so when the machine is busy.
NOTHING_FORGOTTEN = """\
from kafka.cluster import ClusterMetadata

refresh = ClusterMetadata._do_refresh_metadata


async def refresh_and_notice_new_topics(self, node_id):
    asked_for = set(self._topics)
    await refresh(self, node_id)
    if self._topics != asked_for:
        self.request_update()


ClusterMetadata._do_refresh_metadata = refresh_and_notice_new_topics
"""
# A test of security starts a broker with the protocol that it needs. It gets the listener of our broker that has this
# protocol instead. The admin client lists topics for it, because Kafka's tool is not there.
SECURED_LISTENERS = """
import os

from kafka import KafkaAdminClient
from test.integration.fixtures import KafkaFixture


class Listener(KafkaFixture):
    def get_topic_names(self):
        with KafkaAdminClient(**self._enrich_client_params({})) as admin:
            return admin.list_topics()


def instance(broker_id, transport="PLAINTEXT", sasl_mechanism=None, **others):
    host, port = os.environ["LISTENER_" + transport].split(":")
    protocol = {"transport": transport, "sasl_mechanism": sasl_mechanism}
    listener = Listener(host, int(port), broker_id, partitions=4, external=True, **protocol)
    listener.ssl_dir = os.environ["SSL_DIRECTORY"]
    return listener


KafkaFixture.instance = instance
"""


class Outcome(Struct, frozen=True):
    """The outcomes of the cases of one test, which may have several."""

    passed: int
    not_passed: int
    output: str


class OwnSuite:
    """The unpacked suite, which can run any number of times."""

    def __init__(self, directory: Path, environment: Mapping[str, str], configuration: str = NOTHING_FORGOTTEN) -> None:
        with tarfile.open(source_distribution()) as archive:
            archive.extractall(directory, filter="data")
        (self._root,) = directory.iterdir()
        # Without this file, Python would find its own package of that name first.
        (self._root / "test" / "__init__.py").touch()
        (self._root / "test" / "service.py").write_text(SERVICE)
        (self._root / "conftest.py").write_text(configuration)
        self._environment = environment

    @classmethod
    def unsecured(cls, directory: Path, bootstrap: str) -> Self:
        """Returns the suite for a broker without security."""
        return cls(directory, {"KAFKA_URI": f"kafka://{bootstrap}"})

    @classmethod
    def secured(cls, directory: Path, broker: SecuredBroker) -> Self:
        """Returns the suite for the tests of security."""
        listeners = {
            f"LISTENER_{protocol}": broker.address(protocol) for protocol in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL")
        }
        certificates = broker.authority.parent
        shutil.copy(broker.authority, certificates / "ca-cert")
        environment = {"SSL_DIRECTORY": str(certificates), **listeners}
        return cls(directory, environment, NOTHING_FORGOTTEN + SECURED_LISTENERS)

    def collected(self) -> set[str]:
        """Returns all tests that need a broker, as `module::test`."""
        output = self._pytest("test/integration", "--collect-only", "--quiet").stdout
        return {re.sub(r"\[.*", "", line) for line in re.findall(r"^test/integration/(.+::.+)$", output, re.MULTILINE)}

    def run(self, test: str) -> Outcome:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch, "report.xml")
            done = self._pytest(f"test/integration/{test}", f"--junitxml={report}", "--show-capture=no", "--tb=short")
            cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
        passed = sum(len(case.findall("*")) == len(case.findall("system-out")) for case in cases)
        return Outcome(passed, len(cases) - passed, done.stdout[-6000:] + done.stderr[-1000:])

    def _pytest(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the tests start sooner
            "KAFKA_VERSION": BROKER_VERSION,
            "KAFKA_ROOT": str(self._root),  # the suite looks for a broker to start, but does not use it
            **self._environment,
        }
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_timeout", *words]
        return subprocess.run(
            command, cwd=self._root, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS_MAX
        )


def source_distribution() -> Path:
    """Returns the archive, and downloads it first if it is missing.

    Many processes may call it at the same time.
    """
    version = importlib.metadata.version(PROJECT)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"
    archive = cache / f"{PROJECT}-{version}.tar.gz"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{PROJECT}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                _fetch(version, archive)
    return archive


def _fetch(version: str, archive: Path) -> None:
    """Downloads the archive. It appears in the cache only when it is complete and pip has checked it."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PROJECT),
            *("--dest", scratch, f"{PROJECT}=={version}"),
        ]
        pip = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
        if pip.returncode != 0:
            raise RuntimeError(f"the tests of {PROJECT} could not be fetched:\n{pip.stdout}{pip.stderr}")
        (fetched,) = Path(scratch).glob("*.tar.gz")
        shutil.move(fetched, archive)


if __name__ == "__main__":
    print(source_distribution())

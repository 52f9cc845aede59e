"""docker-compose.secure.yml closes the cluster of docker-compose.yml: users reach it, and strangers do not."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from containers.compose_file import SECURE_FILE, read_services
from containers.conftest import PASSWORD
from containers.namespaces import Namespace, programs
from containers.pages import steps
from containers.project import Project
from containers.test_compose_file import CHECK

SECONDS_MAX = 60
PROGRAM = """
import json, sys
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
settings = json.loads(sys.argv[1])
outcomes = []
producer = Producer({**settings, "message.timeout.ms": int(sys.argv[3]), "acks": "all"})
producer.produce("letters", sys.argv[2].encode(), partition=0, on_delivery=lambda error, _: outcomes.append(error))
producer.flush(30)
if outcomes != [None]:
    sys.exit(f"refused: {outcomes}")
consumer = Consumer({**settings, "group.id": "readers"})
consumer.assign([TopicPartition("letters", 0, 0)])
while (message := consumer.poll(30)) is not None:
    if message.error():
        raise KafkaException(message.error())
    print(message.value().decode(), flush=True)
    if message.value() == sys.argv[2].encode():
        break
consumer.close()
"""


def test_the_merged_file_is_as_the_specification_has_it() -> None:
    done = subprocess.run([*CHECK, str(SECURE_FILE)], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_port_is_open_and_each_server_sees_its_own_key_only() -> None:
    services = read_services({"HOST_ADDRESS": "192.0.2.7", "ADMIN_PASSWORD": PASSWORD}, secure=True)
    for name in ("sc", "spu-1", "spu-2", "spu-3"):
        environment = services[name].environment
        protocols = environment["TAILRACE_BROKER_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
        assert {"PUBLIC:SASL_SSL", "PRIVATE:SSL"} <= set(protocols)
        assert "PLAINTEXT" not in str(protocols)
        assert services[name].volumes["/certificates"] == f"{name}-certificates"
        assert PASSWORD not in str(environment) + str(services[name].command)
    assert services["register"].secrets == {"admin-password": PASSWORD}
    assert "--host 192.0.2.7" in services["certificates"].command[-1]
    published = {port.container_port for port in services["sc"].ports}
    assert 9103 not in published


def _settings(bootstrap: str, authority: Path, password: str = PASSWORD) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": password,
    }


def _exchange(
    place: Namespace, settings: dict[str, str], value: str, timeout_ms: int = 30_000
) -> "subprocess.CompletedProcess[str]":
    """Writes a record and reads the topic up to it."""
    return place.run([sys.executable, "-c", PROGRAM, json.dumps(settings), value, str(timeout_ms)], programs())


def test_users_reach_the_closed_cluster_from_everywhere(closed: Project) -> None:
    authority = closed.volume("sc-certificates") / "ca.pem"
    made = closed.execute(
        "register", ["tailrace", "topic", "create", "letters", "--replication-factor", "3", "--wait", "30"]
    )
    assert made.returncode == 0, made.stderr
    inside = _exchange(closed.client, _settings("spu-1:9092", authority), "from a container")
    assert inside.returncode == 0, inside.stderr
    outside = _exchange(closed.host, _settings("127.0.0.1:29092", authority), "from the host")
    assert outside.returncode == 0, outside.stderr
    assert outside.stdout.splitlines() == ["from a container", "from the host"]


def test_strangers_get_nowhere(closed: Project) -> None:
    authority = closed.volume("sc-certificates") / "ca.pem"
    wrong = _exchange(closed.client, _settings("spu-1:9092", authority, "guess"), "from a stranger", 2000)
    assert wrong.returncode != 0
    plain = _exchange(closed.host, {"bootstrap.servers": "127.0.0.1:19092"}, "from a stranger", 2000)
    assert plain.returncode != 0
    for address in ("sc:9003", "sc:9103"):
        asked = closed.execute("sc", ["tailrace", "topic", "list", "--sc", address])
        assert asked.returncode == 3 and "Traceback" not in asked.stderr, asked


def test_a_second_up_renews_certificates_and_keeps_the_cluster(closed: Project) -> None:
    authority = closed.volume("sc-certificates") / "ca.pem"
    before = authority.read_bytes()
    for name in ("certificates", "register"):
        closed[name].start()
        closed[name].wait_for_success()
    assert authority.read_bytes() == before
    again = _exchange(closed.client, _settings("spu-2:9092", authority), "after the second up")
    assert again.returncode == 0, again.stderr


def test_the_first_records_in_closed_containers(closed: Project, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes((closed.volume("sc-certificates") / "ca.pem").read_bytes())
    program = ""
    for step in steps("docs/deployment.md", "Closed in containers"):
        if step.language == "python":
            program = step.text
            continue
        for line in step.text.splitlines():
            match shlex.split(line):
                case ["export", _, password]:
                    assert password == f"ADMIN_PASSWORD={PASSWORD}"
                case ["docker", "compose", "up" | "cp", *_]:
                    pass  # the project is up already, and the file was copied
                case ["docker", "compose", "run", "--rm", "--no-deps", service, command]:
                    done = closed.execute(service, ["sh", "-ec", command])
                    assert done.returncode == 0, done.stderr
                case ["python", _, bootstrap]:
                    script = 'cd "$1" && exec "$2" -c "$3" "$4"'
                    words = ["sh", "-c", script, "sh", str(tmp_path), sys.executable, program, bootstrap]
                    ran = closed.host.run(words, programs() | {"ADMIN_PASSWORD": PASSWORD})
                    assert ran.returncode == 0, ran.stderr
                    assert {each.rpartition(" ")[2] for each in ran.stdout.splitlines()} == {"0", "1", "2"}, ran.stdout
                case _:
                    pytest.fail(f"no test takes this step of the page:\n{line}")

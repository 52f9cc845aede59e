"""Stock clients use the cluster of docker-compose.yml from the host and from a container while parts of it die."""

import json
import uuid
from collections.abc import Iterator
from unittest.mock import ANY

import pytest
from containers.client import Client
from containers.project import Project
from waiting import wait_until

LIBRARIES = ("kafka-python", "librdkafka")
SPUS = ("spu-1", "spu-2", "spu-3")
FROM_HOST = {1: "127.0.0.1:19092", 2: "127.0.0.1:29092", 3: "127.0.0.1:39092"}
FROM_CONTAINERS = {number: f"spu-{number}:9092" for number in (1, 2, 3)}
SC_FROM_HOST = "127.0.0.1:19003"
SC_FROM_CONTAINERS = "sc:9003"
UNREACHABLE = 3
ASK_HEALTH = """
import http.client, json
answers = []
for path in ("/healthz", "/readyz"):
    connection = http.client.HTTPConnection("127.0.0.1", 9008, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    answers.append((path, response.status, response.read().decode()))
print(json.dumps(answers))
"""


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def whole(project: Project) -> Iterator[Project]:
    """Yields the project with every service running, and restarts services for the next test."""
    yield project
    _wait_until_all_are_online(project)


def _status_of_the_command_line(project: Project) -> int:
    return project.execute("sc", ["tailrace", "spu", "list"]).returncode


def _health(project: Project, service: str) -> dict[str, tuple[int, str]]:
    """Returns the status and the text of both health checks of a service."""
    done = project.execute(service, ["python", "-c", ASK_HEALTH])
    assert done.returncode == 0, done.stderr
    return {path: (status, text) for path, status, text in json.loads(done.stdout)}


def _expected(partitions: int, count: int) -> dict[int, list[int]]:
    return {partition: list(range(partition, count, partitions)) for partition in range(partitions)}


def _spus(project: Project) -> dict[str, str]:
    done = project.execute("sc", ["tailrace", "spu", "list", "--output", "json"])
    if done.returncode != 0:
        return {}
    return {str(each["spec"]["spuId"]): each["status"]["resolution"] for each in json.loads(done.stdout)}


def _wait_until_all_are_online(project: Project) -> None:
    wait_until(lambda: {state.lower() for state in _spus(project).values()} == {"online"}, 30, "all SPUs online")


@pytest.mark.parametrize("library", LIBRARIES)
def test_clients_are_told_addresses_that_are_right_where_they_are(project: Project, library: str) -> None:
    _wait_until_all_are_online(project)
    for place, bootstraps, told in (
        (project.host, (SC_FROM_HOST, *FROM_HOST.values()), FROM_HOST),
        (project.client, (SC_FROM_CONTAINERS, *FROM_CONTAINERS.values()), FROM_CONTAINERS),
    ):
        for bootstrap in bootstraps:
            assert Client(place, library, bootstrap).brokers() == told


@pytest.mark.parametrize("library", LIBRARIES)
def test_records_written_on_one_side_are_read_on_the_other(project: Project, topic: str, library: str) -> None:
    Client(project.host, library, SC_FROM_HOST)("create", topic, 3)
    Client(project.host, library, FROM_HOST[1])("produce", topic, 3, 0, 30)
    Client(project.client, library, FROM_CONTAINERS[2])("produce", topic, 3, 30, 30)
    for client in (
        Client(project.client, library, FROM_CONTAINERS[1]),
        Client(project.host, library, FROM_HOST[3]),
    ):
        assert client.consume(topic, 3, 60) == _expected(3, 60)


def test_each_spu_leads_a_part_and_the_command_line_shows_it(project: Project, topic: str) -> None:
    Client(project.client, "librdkafka", SC_FROM_CONTAINERS)("create", topic, 3)
    done = project.execute("sc", ["tailrace", "partition", "list", topic, "--output", "json"])
    assert done.returncode == 0, done.stderr
    assert sorted(each["leader"] for each in json.loads(done.stdout)) == [1, 2, 3]


def test_a_second_up_changes_nothing(project: Project) -> None:
    before = _spus(project)
    project["register"].start()
    project["register"].wait_for_success()
    assert project["register"].starts == 1
    assert _spus(project) == before


def test_an_spu_that_was_killed_comes_back_with_its_records(whole: Project, topic: str) -> None:
    inside = Client(whole.client, "kafka-python", "spu-1:9092,spu-2:9092,spu-3:9092")
    inside("create", topic, 3)
    inside("produce", topic, 3, 0, 30)
    whole["spu-2"].kill()
    inside("produce", topic, 3, 30, 30)
    assert Client(whole.host, "librdkafka", FROM_HOST[1]).consume(topic, 3, 60) == _expected(3, 60)


def test_clients_do_not_notice_that_the_controller_was_killed(whole: Project, topic: str) -> None:
    outside = Client(whole.host, "librdkafka", FROM_HOST[1])
    outside("create", topic, 3)
    whole["sc"].kill()
    outside("produce", topic, 3, 0, 30)
    whole["sc"].wait_for_health()
    _wait_until_all_are_online(whole)
    Client(whole.host, "kafka-python", SC_FROM_HOST)("create", f"{topic}-later", 3)
    outside("produce", f"{topic}-later", 3, 0, 3)
    assert outside.consume(topic, 3, 30) == _expected(3, 30)


def test_the_store_restarts_with_all_its_data(whole: Project, topic: str) -> None:
    outside = Client(whole.host, "kafka-python", FROM_HOST[3])
    outside("create", topic, 3)
    whole["etcd"].kill()
    outside("produce", topic, 3, 0, 30)
    whole["sc"].wait_for_health()
    _wait_until_all_are_online(whole)
    outside("create", f"{topic}-later", 3)
    assert outside.consume(topic, 3, 30) == _expected(3, 30)


def test_while_the_store_is_offline_clients_work_and_the_command_line_says_what_is_wrong(
    whole: Project, topic: str
) -> None:
    outside = Client(whole.host, "librdkafka", FROM_HOST[2])
    outside("create", topic, 3)
    whole["etcd"].stop()
    try:
        wait_until(lambda: _status_of_the_command_line(whole) == UNREACHABLE, 30, "the SC has stopped leading")
        assert _health(whole, "sc") == {"/healthz": (200, "alive\n"), "/readyz": (503, ANY)}
        assert _health(whole, "spu-1")["/readyz"] == (200, ANY), "SPUs serve clients without the SC"
        outside("produce", topic, 3, 0, 30)
        assert outside.consume(topic, 3, 30) == _expected(3, 30)
    finally:
        whole["etcd"].start()
    whole["sc"].wait_for_health()
    _wait_until_all_are_online(whole)
    outside("create", f"{topic}-later", 3)


def test_after_a_power_failure_all_services_start_in_any_order(whole: Project, topic: str) -> None:
    inside = Client(whole.client, "librdkafka", FROM_CONTAINERS[1])
    inside("create", topic, 3)
    inside("produce", topic, 3, 0, 30)
    whole.kill_all()
    whole.start_all_at_once()
    whole.wait_for_health()
    _wait_until_all_are_online(whole)
    assert inside.brokers() == FROM_CONTAINERS
    assert inside.consume(topic, 3, 30) == _expected(3, 30)


def test_all_stop_cleanly_and_start_again(whole: Project, topic: str) -> None:
    outside = Client(whole.host, "librdkafka", FROM_HOST[1])
    outside("create", topic, 3)
    outside("produce", topic, 3, 0, 30)
    statuses = whole.stop()
    assert {statuses[name] for name in (*SPUS, "sc", "register")} == {0}
    whole.up()
    _wait_until_all_are_online(whole)
    assert outside.consume(topic, 3, 30) == _expected(3, 30)

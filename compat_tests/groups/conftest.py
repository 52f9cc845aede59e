"""Fixtures for groups: a broker that soon notices lost members, members that end with the test, and a producer."""

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from brokers import private_broker, shared_broker
from clients.librdkafka import produce
from cluster import Broker
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from groups.members import FLAVOURS, Flavour, Member
from kafka import KafkaAdminClient

# Clients of the classic protocol choose their session timeouts; for other clients, the broker does.
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "15000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}
Fill = Callable[..., set[str]]


# This overrides the whole fixture and not only the settings: pytest would pass the first broker to all later tests.
@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shared_broker(request, tmp_path_factory, SETTINGS) as address:
        yield address


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with private_broker(request, tmp_path, SETTINGS) as private:
        yield private


@pytest.fixture(params=FLAVOURS, ids=str)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    chosen: Flavour = request.param
    return chosen


@pytest.fixture
def group() -> str:
    """Returns a unique name of a group."""
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def start_member(bootstrap: str, group: str) -> Iterator[Callable[..., Member]]:
    """Yields a function that starts members.

    It takes the parameters of `Member`; the default group is the test's own.
    """
    members: list[Member] = []

    def start(flavour: Flavour, topics: str | tuple[str, ...] = (), **more: object) -> Member:
        wanted = {"bootstrap": bootstrap, "group": group, "name": f"member-{len(members) + 1}"} | more
        topics = (topics,) if isinstance(topics, str) else topics
        members.append(Member(flavour, topics=topics, **wanted))  # type: ignore[arg-type]
        return members[-1]

    yield start
    for member in members:
        member.kill()


@pytest.fixture
def make_filler() -> Callable[[str], Fill]:
    """Yields a function that returns `fill` for a broker's address."""
    numbers = itertools.count()

    def make(bootstrap: str) -> Fill:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 0, "reconnect.backoff.max.ms": 200, "log_level": 2}
        )

        def send(topic: str, count: int, partitions: int = 1) -> set[str]:
            values = set()
            for partition in range(partitions):
                some = [f"{topic}-{partition}-{next(numbers)}" for _ in range(count)]
                produce(producer, topic, [value.encode() for value in some], partition=partition)
                values |= set(some)
            return values

        return send

    return make


@pytest.fixture
def fill(bootstrap: str, make_filler: Callable[[str], Fill]) -> Fill:
    """Returns `fill(topic, 100, partitions=4)`, which sends so many different records to each partition, and returns
    the values."""
    return make_filler(bootstrap)


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def librdkafka_admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})

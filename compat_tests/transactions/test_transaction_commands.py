"""`tailrace transaction` as a process, on transactions that stock producers and raw requests have left open."""

import json
import uuid
from contextlib import contextmanager

import pytest
from brokers import is_apache_kafka
from cluster import run_to_end, tailrace, tailrace_output
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from raw import Connection
from raw_transactions import NONE, Transactional

from .transaction_readers import values

SECONDS_MAX = 30
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def run(bootstrap):
    """Returns a function that runs `tailrace transaction`, and returns its exit status and output."""
    return lambda *words: run_to_end(tailrace("transaction", *words, "--bootstrap", bootstrap))


@pytest.fixture
def shown(bootstrap):
    """Returns a function that runs `tailrace transaction`, and returns its JSON output."""
    return lambda *words: json.loads(tailrace_output("transaction", *words, "--bootstrap", bootstrap))


@contextmanager
def without_verification(bootstrap):
    """Has brokers take the records of older producers without asking whether they are in a transaction."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def alter(how, value):
        entry = ConfigEntry(VERIFICATION, value, incremental_operation=how)
        brokers = admin.list_topics(timeout=SECONDS_MAX).brokers
        resources = [ConfigResource(ResourceType.BROKER, str(each), incremental_configs=[entry]) for each in brokers]
        for done in admin.incremental_alter_configs(resources).values():
            done.result(SECONDS_MAX)

    alter(AlterConfigOpType.SET, "false")
    try:
        yield
    finally:
        alter(AlterConfigOpType.DELETE, None)


def test_an_open_transaction_is_explained_and_aborted(request, bootstrap, create_topic, run, shown):
    topic, name = create_topic(), f"id-{uuid.uuid4().hex}"
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "client.id": "clerk", "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, "left open")
    assert producer.flush(SECONDS_MAX) == 0

    (listed,) = [each for each in shown("list", "--state", "Ongoing") if each["transactionalId"] == name]
    assert listed["partitions"] == [f"{topic}/0"]
    (described,) = shown("describe", name)
    assert described["state"] == "Ongoing"
    assert described["next"].startswith(f"It times out at {described['timesOut']}, in ")
    if not is_apache_kafka(request):
        assert (described["clientId"], described["host"]) == ("clerk", "/127.0.0.1")
    explained = shown("explain", topic)
    (partition,) = explained["partitions"]
    assert (partition["lastStableOffset"], partition["highWatermark"]) == (0, 1)
    assert [(each["transactionalId"], each["isHanging"]) for each in partition["open"]] == [(name, False)]

    status, said = run("abort", name)
    assert status == 1 and f"the transaction of {name} is ongoing" in said
    status, said = run("abort", name, "--force")
    assert status == 0 and said.startswith(f"Aborted the transaction of {name} in {topic}/0.")
    with pytest.raises(KafkaException):
        producer.commit_transaction(SECONDS_MAX)
    assert values(bootstrap, topic, [0]) == []


def test_a_hanging_transaction_is_found_and_aborted(bootstrap, topic, run, shown):
    """A broker that does not verify partitions takes a record after its transaction has ended, which then hangs."""
    with without_verification(bootstrap):
        producer = Transactional(Connection(bootstrap))
        assert producer.produce(topic, b"too late", 0) == (NONE, 0)
    explained = shown("explain", topic)
    (partition,) = explained["partitions"]
    (hanging,) = partition["open"]
    assert (hanging["isHanging"], hanging["producerId"], hanging["firstOffset"]) == (True, producer.producer_id, 0)
    command = f"abort {topic}/0 --start-offset 0"
    assert f"Abort it with `tailrace transaction {command}`" in explained["now"][0]
    status, said = run(*command.split())
    assert status == 0 and said.endswith(f"Readers with read_committed now see {topic}/0 up to offset 2.\n")
    assert values(bootstrap, topic, [0]) == []
    assert run("explain", topic) == (0, f"No transaction holds back readers of {topic}/0.\n")

"""What a broker logs at its start, at its stop, and about clients that speak other protocols; and its health checks."""

import http.client
import json
import signal
import socket
import ssl

import pytest
from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TLS_CLIENTS = 5


class LoggedBroker:
    """`tailrace up` with metrics, whose log is read line by line."""

    def __init__(self, directory):
        self.server = Server(directory, "up", READY_LINE)
        self._directory = directory
        self._lines = 0

    def start(self):
        """Starts the broker on a free port, and returns its address."""
        where = ("--data", str(self._directory / "data"), "--public", "127.0.0.1:0")
        words = (*where, *FREE_PORTS, "--metrics", "127.0.0.1:0", "--log-format", "json")
        return self.server.start(tailrace("up", *words))[1].split(",")[0]

    def new_events(self):
        """Returns the events that were logged since the last call."""
        lines = self.server.errors().splitlines()[self._lines :]
        self._lines += len(lines)
        return [json.loads(line) for line in lines]


@pytest.fixture
def logged(tmp_path):
    broker = LoggedBroker(tmp_path)
    try:
        yield broker
    finally:
        broker.server.kill()


def named(events, name):
    return [event for event in events if event["event"] == name]


def get(address, path):
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read().decode()


def deliver_one_record(bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.produce("orders", b"one", partition=7)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition("orders", 7, 0)])
    assert consumer.poll(20).value() == b"one"
    consumer.close()


def test_a_start_a_stop_and_strange_clients_are_a_few_lines(logged):
    bootstrap = logged.start()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 30, 1)])["orders"].result(20)
    events = logged.new_events()
    for served in named(events, "metrics_served"):
        assert get(served["address"], "/healthz") == (200, "alive\n")
        status, line = get(served["address"], "/readyz")
        assert (status, line.startswith("ready: ")) == (200, True)
    (metrics,) = [served["address"] for served in named(events, "metrics_served")][-1:]
    deliver_one_record(bootstrap)
    assert "tailrace_produce_to_consume_seconds_count 1.0\n" in get(metrics, "/metrics")[1]

    status, text = get(bootstrap, "/")
    assert status == 400
    assert "Kafka" in text
    host, port = bootstrap.split(":")
    for _ in range(TLS_CLIENTS):
        with socket.create_connection((host, int(port)), timeout=20) as plain, pytest.raises(OSError):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
    refused = named(logged.new_events(), "request_refused")
    assert [event["protocol"] for event in refused] == ["HTTP"], "one line per address and minute"

    logged.server.signal(signal.SIGINT)
    assert logged.server.wait() == 0
    events = logged.new_events()
    assert not [event for event in events if event["level"] in ("warning", "error")]
    assert named(events, "spu_left")

    logged.start()
    assert logged.server.stop() == 0
    events = logged.new_events()
    assert not named(events, "leader_elected")
    (elected,) = named(events, "leaders_elected")
    assert elected["partitions"] >= 30
    assert not [event for event in events if event["level"] in ("warning", "error")]

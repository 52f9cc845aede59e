"""Functions and files that were written for Nuclio run unchanged, on a cluster of Tailrace and on Apache Kafka."""

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest
from brokers import is_apache_kafka
from cluster import FREE_PORTS, READY_LINE, Server, run_to_end, tailrace, tailrace_output
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from peer.apache_kafka import ApacheKafka
from waiting import wait_until

REPLICA_READY = re.compile(r"^ready (\S+) of trigger (\S+) handles (\S+) \((\d+) shards\)", re.MULTILINE)
HANDLER = """
import os

def init_context(context):
    context.user_data.file = open(os.environ["HANDLED"], "a", buffering=1)

def handler(context, event):
    context.logger.info_with("Got event", body=event.body.decode())
    context.user_data.file.write(f"{event.body.decode()}\\n")
    return context.Response(body="", headers={}, content_type="text/plain", status_code=200)
"""
V3IO = """
    apiVersion: nuclio.io/v1
    kind: NuclioFunction
    metadata: {name: billing, namespace: nuclio}
    spec:
      handler: main:handler
      runtime: python:3.11
      minReplicas: 3
      maxReplicas: 3
      env: [{name: HANDLED, value: FILE}]
      resources: {limits: {memory: 256M}}
      triggers:
        stream:
          kind: v3ioStream
          url: http://v3io-webapi:8081/bigdata/my-stream@my-consumer-group
          maxWorkers: 2
          workerAvailabilityTimeoutMilliseconds: 10000
          partitions: [{id: 0}]
          username: someone
          password: my-key
          workerAllocatorName: shared
          attributes: {seekTo: earliest, readBatchSize: 64, pollingIntervalMs: 100, sessionTimeout: 8s}
"""
KAFKA = """
    metadata: {name: billing}
    spec:
      handler: main:handler
      env: [{name: HANDLED, value: FILE}]
      triggers:
        myKafkaTrigger:
          kind: kafka-cluster
          attributes:
            initialOffset: earliest
            topics: [my-stream]
            brokers: [BROKER]
            consumerGroup: my-consumer-group
            sasl: {enable: true, user: me, password: secret-key, handshake: true}
"""


def _function(directory: Path, file: str) -> Path:
    """Writes the function of Nuclio, and returns the file to which it writes the bodies of events."""
    handled = directory / "handled"
    handled.touch()
    (directory / "main.py").write_text(HANDLER)
    (directory / "function.yaml").write_text(dedent(file).replace("FILE", str(handled)))
    return handled


def _produce(bootstrap: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce("my-stream", f"order {number}", partition=partition)
    assert producer.flush(20) == 0


def _handles(handled: Path, count: int) -> None:
    expected = [f"order {number}" for number in range(count)]
    wait_until(lambda: handled.read_text().splitlines() == expected, 20, f"{count} handled events")


def test_a_file_for_a_stream_of_v3io_runs_unchanged(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if is_apache_kafka(request):
        pytest.skip("a stream of v3io stands for a topic of the cluster of the Streaming Controller")
    handled = _function(tmp_path, V3IO)
    server, replica = Server(tmp_path, "up", READY_LINE), Server(tmp_path, "replica", REPLICA_READY)
    command = tailrace("up", "--data", str(tmp_path / "data"), "--public", "127.0.0.1:0", *FREE_PORTS)
    try:
        ready = server.start([*command, "--metrics", "off", "--topic", "my-stream:12"])
        _produce(ready[1], 20)
        sc = ready[2]
        assert replica.start(tailrace("trigger", "run", str(tmp_path), "--sc", sc)).group(3, 4) == ("my-stream", "12")
        _handles(handled, 20)
        (member,) = json.loads(tailrace_output("trigger", "state", "my-stream", "--sc", sc))
        assert member["shards"] == "0-3", "a third of the shards, for three replicas"
        assert replica.stop() == 0
        said = (tmp_path / "replica.errors").read_text()
        for name in ("workerAvailabilityTimeoutMilliseconds", "partitions", "username", "workerAllocatorName"):
            assert f": {name} is deprecated and ignored: " in said
        assert "resources has no effect in Tailrace" in said
        assert "access_key_not_needed" in said
        assert "my-key" not in said
        assert '"body":"order 19"' in said.replace('": "', '":"')
    finally:
        replica.kill()
        server.kill()


def test_the_password_is_the_access_key_of_brokers_that_ask_for_one(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if not is_apache_kafka(request):
        pytest.skip("brokers of Tailrace ask for no access key")
    broker = ApacheKafka(tmp_path / "kafka", listeners=("SASL_PLAINTEXT",), users={"me": "secret-key"})
    replica = Server(tmp_path, "replica", REPLICA_READY)
    (tmp_path / "kafka").mkdir()
    try:
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("my-stream", 1, 1)])["my-stream"].result(20)
        protected = KAFKA.replace("BROKER", broker.addresses["SASL_PLAINTEXT"])
        handled = _function(tmp_path, protected)
        _produce(broker.bootstrap, 20)
        replica.start(tailrace("trigger", "run", str(tmp_path)))
        _handles(handled, 20)
        assert replica.stop() == 0

        _function(tmp_path, protected.replace("secret-key", "wrong-key"))
        status, output = run_to_end(tailrace("trigger", "run", str(tmp_path)))
        assert status == 1
        assert "does not accept the access key of the user me" in output
        assert "wrong-key" not in output
    finally:
        replica.kill()
        broker.kill()

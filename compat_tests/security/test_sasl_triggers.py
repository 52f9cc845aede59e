"""A trigger reads and writes over SASL_SSL, with the settings of clients or with its access key."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from cluster import tailrace
from confluent_kafka import Consumer, Producer
from secured_broker import PASSWORD, USER, SecuredBroker
from topics import topic_creator

FUNCTION = """
from tailrace.trigger import trigger


@trigger("{source}", group="{target}", seek_to="earliest"{more})
def shout(context, event):
    context.emit("{target}", event.body.upper())
"""
SECONDS_MAX = 30


@pytest.mark.parametrize("with_access_key", [False, True])
def test_a_trigger_logs_in(secured: SecuredBroker, tmp_path: Path, with_access_key: bool) -> None:
    source, target = (topic_creator(secured.open_address, f"{name}-{with_access_key}")() for name in ("in", "out"))
    settings = secured.properties("SASL_SSL", "SCRAM-SHA-512")
    more = ""
    if with_access_key:  # TLS comes from the file, and the login with PLAIN from the trigger
        settings = {name: value for name, value in settings.items() if not name.startswith("sasl.")}
        settings["security.protocol"] = "SSL"
        more = f', access_user="{USER}", access_key="{PASSWORD}"'
    config, function = tmp_path / "client.properties", tmp_path / "shout.py"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    function.write_text(FUNCTION.format(source=source, target=target, more=more))
    producer = Producer({"bootstrap.servers": secured.open_address})
    producer.produce(source, b"hello")
    assert producer.flush(SECONDS_MAX) == 0
    command = tailrace("trigger", "run", str(function), "--bootstrap", secured.tls_address)
    log = tmp_path / "log"
    with log.open("wb") as output:
        environment = {name: value for name, value in os.environ.items() if name not in ("TAILRACE_SC",)}
        running = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment | {"TAILRACE_CLIENT_CONFIG": str(config)}
        )
    try:
        consumer = Consumer(
            {"bootstrap.servers": secured.open_address, "group.id": f"c-{target}", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([target])
        message = consumer.poll(SECONDS_MAX)
        assert message is not None and message.value() == b"HELLO", log.read_text()
        consumer.close()
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(SECONDS_MAX)
    assert PASSWORD not in log.read_text()

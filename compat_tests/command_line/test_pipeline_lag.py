"""`tailrace pipeline lag` follows a checkpoint; a stock client sees what it commits."""

import signal
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest
from cluster import READY_SECONDS_MAX, end, run_to_end, tailrace
from free_ports import free_port
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError
from topics import CreateTopic
from waiting import wait_until

HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1767607200000,"conf":{}}\n'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    directory = tmp_path / "billing"
    for each in ("offsets", "commits"):
        (directory / each).mkdir(parents=True)
    (directory / "metadata").write_text('{"id":"ce011fdc-8762-4dcb-84eb-a77333e28109"}')
    return directory


def _do_batch(checkpoint: Path, batch: int, topic: str, offset: int) -> None:
    """Writes what Spark writes when a batch is done."""
    (checkpoint / "offsets" / str(batch)).write_text(f'{HEAD}{{"{topic}":{{"0":{offset}}}}}')
    (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def _committed(bootstrap: str, group: str) -> dict[int, int]:
    """Returns the committed offsets. librdkafka crashes if its question meets a coordinator that is loading."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        found = admin.list_group_offsets(group)[group]
    except KafkaError:
        return {}  # the coordinator is loading
    finally:
        admin.close()
    return {place.partition: each.offset for place, each in found.items()}


def test_a_checkpoint_is_followed(bootstrap: str, create_topic: CreateTopic, checkpoint: Path) -> None:
    topic, port = create_topic(), free_port()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(10):
        producer.send(topic, b"order")
    producer.flush()
    producer.close()
    _do_batch(checkpoint, 0, topic, 4)
    words = ("--checkpoint", str(checkpoint), "--group", f"{topic}-{{query}}", "--bootstrap", bootstrap)
    command = tailrace("pipeline", "lag", *words, "--follow", "--metrics", f"127.0.0.1:{port}")
    group = f"{topic}-billing"
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"ready follows {checkpoint}\n".encode()
            wait_until(lambda: _committed(bootstrap, group) == {0: 4}, READY_SECONDS_MAX, "the first commit")
            _do_batch(checkpoint, 1, topic, 9)
            wait_until(lambda: _committed(bootstrap, group) == {0: 9}, READY_SECONDS_MAX, "the second commit")
            series = (
                f'tailrace_pipeline_lag_records{{group="{group}",partition="0",query="billing",topic="{topic}"}} 1.0'
            )

            def is_measured() -> bool:
                with urlopen(f"http://127.0.0.1:{port}/metrics") as response:
                    return series in response.read().decode().splitlines()

            wait_until(is_measured, READY_SECONDS_MAX, series)
            process.send_signal(signal.SIGTERM)
            shown = process.stdout.read().decode().splitlines()
            assert process.wait(READY_SECONDS_MAX) == 0
        finally:
            end(process, signal.SIGKILL)
    assert shown[0].split() == ["QUERY", "TOPIC", "PARTITION", "POSITION", "LOG", "END", "LAG", "BEHIND"]
    assert shown[1].split()[:6] == ["billing", topic, "0", "9", "10", "1"]


def test_a_directory_that_is_no_checkpoint_is_said(bootstrap: str, tmp_path: Path) -> None:
    status, said = run_to_end(tailrace("pipeline", "lag", "--checkpoint", str(tmp_path), "--bootstrap", bootstrap))
    assert status == 2
    assert f"{tmp_path} is no checkpoint of a streaming query" in said

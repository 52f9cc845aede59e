"""Idempotent producers of clients other than librdkafka, for the same load."""

import asyncio
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from aiokafka import AIOKafkaProducer
from chaos.records import DELIVERY_SECONDS_MAX, AnyRunningProducer, Place, RunningProducer
from kafka import KafkaProducer
from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import class_path, java

PAUSE_SECONDS = 0.002
"""The pause between two records."""
ENDING_SECONDS_MAX = DELIVERY_SECONDS_MAX + 10
JAVA_PROGRAM = Path(__file__).with_name("IdempotentProducer.java")


class RunningKafkaPythonProducer(AnyRunningProducer):
    client = "kafka-python"

    def __init__(self, name: str, bootstrap: str, places: Sequence[Place]) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            enable_idempotence=True,
            acks="all",
            linger_ms=1,
            request_timeout_ms=5000,
            delivery_timeout_ms=DELIVERY_SECONDS_MAX * 1000,
            reconnect_backoff_max_ms=200,
            metadata_max_age_ms=1000,
        )
        super().__init__(name, bootstrap, places)

    def _run(self) -> None:
        try:
            for place, value in self._to_send():
                topic, partition = place
                sending = self._producer.send(topic, value, partition=partition)
                self._counts[place] += 1
                sending.add_callback(partial(self._on_acknowledged, place, value))
                sending.add_errback(partial(self._on_refused, place, value))
                time.sleep(PAUSE_SECONDS)
        except Exception as error:
            self.errors.append(f"{self._name}: {error!r}")

    def _on_acknowledged(self, place, value, metadata):
        self._acknowledged[place].append((metadata.offset, value))

    def _on_refused(self, place, value, error):
        self.errors.append(f"{self._name}: {place}: {value}: {error!r}")

    def stop(self) -> None:
        super().stop()
        try:
            self._producer.close(timeout=DELIVERY_SECONDS_MAX)
        except Exception as error:
            self.errors.append(f"{self._name}: {error!r}")


class RunningAiokafkaProducer(AnyRunningProducer):
    client = "aiokafka"

    def _run(self) -> None:
        try:
            asyncio.run(self._produce())
        except Exception as error:
            self.errors.append(f"{self._name}: {error!r}")

    async def _produce(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap.split(","),
            enable_idempotence=True,
            acks="all",
            linger_ms=1,
            # The time limit of a response, and of a batch that waits for a leader; after it, the client gives up the
            # batch.
            request_timeout_ms=DELIVERY_SECONDS_MAX * 1000,
            metadata_max_age_ms=1000,
        )
        await producer.start()
        try:
            for place, value in self._to_send():
                topic, partition = place
                sending = await producer.send(topic, value, partition=partition)
                self._counts[place] += 1
                sending.add_done_callback(partial(self._on_done, place, value))
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await asyncio.wait_for(producer.stop(), ENDING_SECONDS_MAX)

    def _on_done(self, place, value, sending):
        if error := sending.exception():
            self.errors.append(f"{self._name}: {place}: {value}: {error!r}")
        else:
            self._acknowledged[place].append((sending.result().offset, value))


class RunningJavaProducer(AnyRunningProducer):
    """Java's producer in a process of its own, which prints the result of each record."""

    client = "java"

    def __init__(self, name: str, bootstrap: str, places: Sequence[Place]) -> None:
        words = [name, bootstrap, str(DELIVERY_SECONDS_MAX * 1000), *(f"{topic}:{number}" for topic, number in places)]
        command = [java(), *SHORT_LIVED, logging_option(), "-cp", class_path(), str(JAVA_PROGRAM), *words]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        super().__init__(name, bootstrap, places)

    def _run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match line.rstrip("\n").split("\t"):
                case ["acknowledged", topic, partition, offset, value]:
                    self._acknowledged[topic, int(partition)].append((int(offset), value.encode()))
                case ["sent", topic, partition, count]:
                    self._counts[topic, int(partition)] = int(count)
                case _:
                    self.errors.append(f"{self._name}: {line}")

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if status := self._process.wait(ENDING_SECONDS_MAX):
            self.errors.append(f"{self._name} ended with status {status}")
        super().stop()


EVERY_CLIENT: Sequence[type[AnyRunningProducer]] = (
    RunningProducer,
    RunningKafkaPythonProducer,
    RunningAiokafkaProducer,
    RunningJavaProducer,
)

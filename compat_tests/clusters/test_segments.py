"""What `tailrace segment list` shows of a partition whose leader was killed while producers worked."""

import itertools
import threading

from cluster import run_to_end, tailrace
from confluent_kafka import Producer
from freezing import frozen
from spu_cluster import cli, objects
from waiting import wait_until

SEGMENT_BYTES = 2**20
VALUE_BYTES = 10_000
UNACKNOWLEDGED_MAX = 100


class Producing:
    """A producer with acks=all that always has some records in flight, for the duration of a `with` block."""

    def __init__(self, bootstrap, topic):
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 0,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged = 0
        self.failures = []

    def _run(self):
        for number in itertools.count():
            if self._stopping.is_set():
                return
            value = b"%d " % number
            self._producer.produce(self._topic, value.ljust(VALUE_BYTES, b"x"), on_delivery=self._on_delivery)
            self._producer.poll(0.002)
            while len(self._producer) > UNACKNOWLEDGED_MAX:
                self._producer.poll(0.01)

    def _on_delivery(self, error, message):
        if error is None:
            self.acknowledged += 1
        else:
            self.failures.append(error)

    def wait_for_more(self, count):
        goal = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= goal, 60, f"{count} more acknowledged records")

    def wait_until_on_their_way(self, count):
        wait_until(lambda: len(self._producer) >= count, 60, f"{count} records without a response")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *raised):
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self.failures == []


def segments(cluster, topic):
    (partition,) = objects(cluster.sc, "segment", f"{topic}/0")
    return partition["segments"]


def comparisons(described):
    return {copy["comparison"] for each in described for copy in each["copies"]}


def test_it_shows_full_segments_the_bridge_after_a_killed_leader_and_equal_copies(separate, name):
    separate.start()
    configs = ("--config", f"segment.bytes={SEGMENT_BYTES}", "--replication-factor", "3", "--wait", "20")
    status, output = cli(separate.sc, "topic", "create", name, *configs)
    assert status == 0, output
    (partition,) = objects(separate.sc, "partition", name)
    leader = partition["leader"]
    with Producing(separate.bootstrap, name) as producing:
        producing.wait_for_more(2 * SEGMENT_BYTES // VALUE_BYTES)
        with frozen([separate.node_pid(node) for node in separate.ids if node != leader]):
            producing.wait_until_on_their_way(20)  # so that there is something to recover
            separate.kill_node(leader)
        producing.wait_for_more(10)
        described = segments(separate, name)
        assert all(
            {copy["spuId"]: copy["comparison"] for copy in each["copies"]}[leader] == "not compared"
            for each in described
        )
        separate.start_node(leader)
        producing.wait_for_more(SEGMENT_BYTES // VALUE_BYTES)

    # Without producers, all copies become the same, and stay so.
    wait_until(lambda: comparisons(segments(separate, name)) <= {"same", "same records"}, 30, "the copies are the same")
    described = segments(separate, name)
    assert [each["end"] for each in described[:-1]] == [each["base"] for each in described[1:]]
    assert [each["state"] for each in described] == ["sealed"] * (len(described) - 1) + ["open"]
    (bridged,) = (each for each in described if each["sealedBy"] == "bridge")
    assert bridged["epochs"] == [0, 1]
    by = [each["sealedBy"] for each in described[:-1]]
    assert by.count("full") >= 2 and set(by) == {"full", "bridge"}
    leads_now = objects(separate.sc, "partition", name)[0]["leader"]
    log = separate.replica_directory(leads_now, name, 0) / f"{bridged['base']:020}.log"
    status, dumped = run_to_end(tailrace("log", "dump", str(log)))
    assert status == 0, dumped
    assert "bridge" in dumped.splitlines()[-1]

    shown = cli(separate.sc, "show", "segments", name)[1]
    assert "bridge" in shown and "full" in shown, shown
    print(shown)

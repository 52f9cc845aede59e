"""Flipped bits on one disk are repaired from another copy, in leaders and followers; only for Tailrace."""

import struct
import uuid

import pytest
from brokers import is_apache_kafka
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from waiting import wait_until

FAST = {"scrub.interval.ms": "1000", "scrub.max.bytes.per.second": "100000000"}
SEGMENT_BYTES = 1 << 20
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def scrubbed(request, nodes):
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka does not scrub")
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 2})
    for operation in (AlterConfigOpType.SET, AlterConfigOpType.DELETE):
        for node in nodes.ids:
            changes = [ConfigEntry(name, value, incremental_operation=operation) for name, value in FAST.items()]
            resource = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=changes)
            admin.incremental_alter_configs([resource])[resource].result(30)
        if operation is AlterConfigOpType.SET:
            yield nodes


def fill(bootstrap, topic, segments):
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 20_000, "linger.ms": 5, "log_level": 2})
    for number in range(segments * SEGMENT_BYTES // 1000):
        producer.produce(topic, b"%d" % number * 200, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def second_batch(data):
    """Returns where the second batch begins: after the first batch's offset, its length field, and that many bytes."""
    (length,) = struct.unpack_from(">i", data, 8)
    return 12 + length


def overwrite(path, position, data):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def flip(path, position):
    overwrite(path, position, bytes([path.read_bytes()[position] ^ 16]))


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("damage", ["a bit", "a page"])
def test_data_that_a_disk_has_lost_is_repaired(scrubbed, watcher, role, damage):
    topic = f"scrubbed-{uuid.uuid4().hex[:8]}"
    watcher.create_topic(topic, configs={"segment.bytes": SEGMENT_BYTES})
    fill(scrubbed.bootstrap, topic, 3)
    leader = watcher.leader(topic)
    node = leader if role == "leader" else next(each for each in scrubbed.ids if each != leader)
    directory = scrubbed.replica_directory(node, topic, 0)
    wait_until(lambda: len(list(directory.glob("*.log"))) >= 2, 30, "a segment is sealed")
    segment = min(directory.glob("*.log"))
    sound = segment.read_bytes()
    if damage == "a bit":
        flip(segment, len(sound) // 2)
    else:
        overwrite(segment, len(sound) // 2, bytes(4096))
    wait_until(lambda: segment.read_bytes() == sound, 60, "the segment is repaired")


@pytest.mark.parametrize("where", ["a sealed segment", "the open segment"])
@pytest.mark.parametrize("damage", ["a record", "an offset"])
def test_readers_get_data_that_the_leader_has_lost(request, nodes, watcher, where, damage):
    """The repair happens long before the next scheduled scrub."""
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka does not scrub")
    topic = f"lost-{uuid.uuid4().hex[:8]}"
    watcher.create_topic(topic, configs={"segment.bytes": SEGMENT_BYTES})
    leader = watcher.leader(topic)
    away = next(each for each in nodes.ids if each != leader)
    nodes.kill_node(away)
    watcher.wait_until_in_sync(topic, copies=2)
    fill(nodes.bootstrap, topic, 2)
    segments = sorted(nodes.replica_directory(leader, topic, 0).glob("*.log"))
    assert len(segments) >= 2
    segment = segments[0] if where == "a sealed segment" else segments[-1]
    sound = segment.read_bytes()
    flip(segment, len(sound) // 2 if damage == "a record" else second_batch(sound) + 6)
    nodes.start_node(away)
    watcher.wait_until_in_sync(topic)
    wait_until(lambda: segment.read_bytes()[: len(sound)] == sound, 60, "the segment is repaired")
    copy = nodes.replica_directory(away, topic, 0) / segment.name
    assert copy.read_bytes()[: len(sound)] == sound


def test_a_log_that_cannot_be_opened_is_repaired_and_then_opened(request, nodes, watcher):
    """The damage hides how the log continues after the offset that its SPU knows to be committed."""
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka does not scrub")
    topic = f"unopened-{uuid.uuid4().hex[:8]}"
    watcher.create_topic(topic, configs={"segment.bytes": SEGMENT_BYTES})
    fill(nodes.bootstrap, topic, 3)
    watcher.wait_until_in_sync(topic)
    node = next(each for each in nodes.ids if each != watcher.leader(topic))
    nodes.stop_node(node)
    watcher.wait_until_in_sync(topic, copies=2)
    directory = nodes.replica_directory(node, topic, 0)
    segment = min(directory.glob("*.log"))
    sound = segment.read_bytes()
    overwrite(segment, second_batch(sound) + 8, b"\x80")  # no batch has this length
    (directory.parents[3] / "high-watermarks").unlink(missing_ok=True)
    nodes.start_node(node)
    watcher.wait_until_in_sync(topic)
    assert segment.read_bytes() == sound


@pytest.mark.parametrize("damage", ["a record", "a length"])
def test_data_that_recovery_truncates_is_copied_back_from_other_replicas(request, nodes, watcher, damage):
    """The process was killed, and bits flipped in data that it had not recorded as synced."""
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka does not scrub")
    topic = f"cut-{uuid.uuid4().hex[:8]}"
    watcher.create_topic(topic, configs={"lrs.max.lag.ms": 1000})
    fill(nodes.bootstrap, topic, 1)
    watcher.wait_until_in_sync(topic)
    node = next(each for each in nodes.ids if each != watcher.leader(topic))
    nodes.kill_node(node)
    (segment,) = nodes.replica_directory(node, topic, 0).glob("*.log")
    sound = segment.read_bytes()
    if damage == "a record":
        flip(segment, len(sound) // 2)
    else:
        overwrite(segment, second_batch(sound) + 8, b"\x40")
    nodes.start_node(node)
    wait_until(lambda: segment.read_bytes() == sound, 60, "the segment is repaired")
    watcher.wait_until_in_sync(topic)

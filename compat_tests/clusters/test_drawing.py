"""What `tailrace draw` shows of a cluster in which stock clients produce and consume while one SPU is offline."""

from confluent_kafka import Consumer, Producer, TopicPartition
from spu_cluster import cli, objects, resolutions
from waiting import wait_until


def test_the_drawing_shows_who_leads_follows_and_reads_while_an_spu_is_offline(separate, name):
    separate.start()
    status, output = cli(separate.sc, "topic", "create", name, "--replication-factor", "3", "--wait", "20")
    assert status == 0, output
    leader = objects(separate.sc, "partition", name)[0]["leader"]
    away, other = (spu for spu in separate.ids if spu != leader)
    separate.kill_node(away)
    wait_until(lambda: resolutions(separate.sc)[away] == "Offline", 30, "the SC notices that the SPU is offline")
    producer = Producer({"bootstrap.servers": separate.bootstrap, "acks": "all"})
    for number in range(20):
        producer.produce(name, b"%d" % number)
    assert producer.flush(30) == 0
    group = f"{name}-readers"
    consumer = Consumer({"bootstrap.servers": separate.bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(name, 0, 12)], asynchronous=False)
    finally:
        consumer.close()

    def drawn():
        status, picture = cli(separate.sc, "draw", "partition", f"{name}/0")
        assert status == 0, picture
        return picture.splitlines()

    committed = f"    +---> SPU {other} follows: live, its log ends at 20, high watermark 20, lag 0"
    wait_until(lambda: committed in drawn(), 30, "the follower learns that everything is committed")
    lines = drawn()
    assert f"  SPU {leader} leads: its log ends at 20, high watermark 20" in lines
    assert f"    +---> SPU {away} follows: not live, SPU {away} is not online" in lines
    assert f"  group {group} is at 12, 8 behind" in lines
    assert f"SPU {leader}  [------------>" in lines and f"SPU {away}  [????????????>" in lines
    print("\n".join(lines))

    status, picture = cli(separate.sc, "draw", "cluster")
    assert status == 0, picture
    assert f"   +---- SPU {leader}, Online: leads " in picture
    assert f"   + -   SPU {away}, Offline" in picture
    print(picture)

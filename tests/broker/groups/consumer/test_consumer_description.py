from consumer_stories import Consumer, describe, settle
from grouping import GroupWorld

from tailrace.broker.groups.consumer.consumer_description import CONSUMER_MEMBER


def test_members_are_described_with_what_they_have_and_what_they_shall_have() -> None:
    world = GroupWorld()
    topic = world.put_topic("a", 4)
    m = Consumer(world, "m", ("a", "later"), instance_id="i", extra={"rack_id": "r"})
    n = Consumer(world, "n", None, extra={"subscribed_topic_regex": "a"})
    m.join()
    world.pass_time(1.0)
    n.join()
    m.beat(says_owned=False)
    group = describe(world)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("m", "i", "r", 2)
    assert (first.client_id, first.client_host, first.member_type) == ("a-client", "/192.0.2.1", CONSUMER_MEMBER)
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["a", "later"], "")
    assert [(t.topic_id, t.topic_name, t.partitions) for t in first.assignment.topic_partitions] == [
        (topic.id, "a", [0, 1, 2, 3])
    ], "what it is to give up it has yet"
    assert first.target_assignment.topic_partitions[0].partitions == [0, 1]
    assert second.assignment.topic_partitions == []
    assert second.target_assignment.topic_partitions[0].partitions == [2, 3]
    settle([m, n])
    world.cluster.remove_topic(topic.id)
    assert describe(world).members[0].assignment.topic_partitions == [], "nobody knows its name any more"

import json

from tailrace.controller.objects.objects import ClusterIdentity, StreamAttribute
from tailrace.controller.state.events import Removed, Stored
from tailrace.controller.triggers.heartbeat_ages import HeartbeatAges


def attribute(**heartbeats: str) -> StreamAttribute:
    members = [{"member_id": each, "shards": "0", "last_heartbeat": at} for each, at in heartbeats.items()]
    return StreamAttribute("orders", "billing", json.dumps({"members": members, "epoch": 1}))


def test_an_age_begins_when_the_heartbeat_is_first_seen() -> None:
    ages = HeartbeatAges()
    ages.note(Stored(attribute(one="a", two="a")), 10.0)
    ages.note(Stored(attribute(one="a", two="b")), 13.0)
    assert ages.ages_of(attribute(), 15.0) == {"one": 5.0, "two": 2.0}


def test_members_that_left_have_no_age() -> None:
    ages = HeartbeatAges()
    ages.note(Stored(attribute(one="a", two="a")), 10.0)
    ages.note(Stored(attribute(two="a")), 11.0)
    assert ages.ages_of(attribute(), 11.0) == {"two": 1.0}
    ages.note(Stored(attribute(one="a")), 12.0)
    assert ages.ages_of(attribute(), 12.0) == {"one": 0.0}


def test_a_removed_attribute_is_forgotten_and_other_objects_are_ignored() -> None:
    ages = HeartbeatAges()
    ages.note(Stored(attribute(one="a")), 10.0)
    ages.note(Stored(ClusterIdentity("c")), 10.0)
    ages.note(Removed("stream-state/orders/billing", 7), 11.0)
    assert ages.ages_of(attribute(), 11.0) == {}


def test_a_text_that_is_no_attribute_has_no_ages() -> None:
    ages = HeartbeatAges()
    ages.note(Stored(StreamAttribute("orders", "billing", "[]")), 10.0)
    assert ages.ages_of(attribute(), 11.0) == {}

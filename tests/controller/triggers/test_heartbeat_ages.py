import json

from tailrace.controller.objects.objects import ClusterIdentity, StreamAttribute
from tailrace.controller.state.events import Removed, Stored
from tailrace.controller.triggers.heartbeat_ages import HeartbeatAges


def attribute(**heartbeats: str) -> StreamAttribute:
    members = [
        {"member_id": each, "shards": "", "last_heartbeat": f"2026-01-31T12:00:00.{at}Z"}
        for each, at in heartbeats.items()
    ]
    return StreamAttribute("orders", "billing", json.dumps({"members": members, "epoch": 1}))


def test_an_age_begins_when_the_heartbeat_is_first_seen() -> None:
    ages = HeartbeatAges()
    ages.note(Stored(attribute(one="001", two="001")), 10.0)
    ages.note(Stored(attribute(one="001", two="002")), 13.0)
    assert ages.ages_of(attribute(), 15.0) == {"one": 5.0, "two": 2.0}


def test_members_that_left_have_no_age() -> None:
    ages = HeartbeatAges()
    ages.note(Stored(attribute(one="001", two="001")), 10.0)
    ages.note(Stored(attribute(two="001")), 11.0)
    assert ages.ages_of(attribute(), 11.0) == {"two": 1.0}
    ages.note(Stored(attribute(one="001")), 12.0)
    assert ages.ages_of(attribute(), 12.0) == {"one": 0.0}


def test_a_removed_attribute_is_forgotten_and_other_objects_are_ignored() -> None:
    ages = HeartbeatAges()
    ages.note(Stored(attribute(one="001")), 10.0)
    ages.note(Stored(ClusterIdentity("c")), 10.0)
    ages.note(Removed("stream-state/orders/billing", 7), 11.0)
    assert ages.ages_of(attribute(), 11.0) == {}


def test_a_text_that_is_no_attribute_has_no_ages() -> None:
    ages = HeartbeatAges()
    ages.note(Stored(StreamAttribute("orders", "billing", "[]")), 10.0)
    assert ages.ages_of(attribute(), 11.0) == {}


def test_another_process_of_a_member_has_another_heartbeat() -> None:
    ages, at = HeartbeatAges(), "2026-01-31T12:00:00Z"
    members = [{"member_id": "one", "shards": "", "last_heartbeat": at}]
    for process, now in (("first", 10.0), ("second", 11.0)):
        text = json.dumps({"members": members, "epoch": 1, "leases": {"one": {"process": process}}})
        ages.note(Stored(StreamAttribute("orders", "billing", text)), now)
    assert ages.ages_of(attribute(), 12.0) == {"one": 1.0}

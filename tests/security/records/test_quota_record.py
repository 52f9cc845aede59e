"""Stored quotas."""

from tailrace.security.records.quota_record import ordered_entity


def test_an_entity_has_its_parts_in_one_order() -> None:
    parts = (("user", "alice"), ("client-id", None))
    assert ordered_entity({"client-id": None, "user": "alice"}) == parts
    assert ordered_entity({"user": "alice", "client-id": None}) == parts
    assert ordered_entity({"ip": None}) == (("ip", None),)

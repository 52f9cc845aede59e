import json

import pytest

from tailrace.controller.triggers.stream_attributes import AttributeFaultError, heartbeats_in

MEMBER = {"member_id": "replica1", "shards": "0-3", "last_heartbeat": "t0"}


def test_each_member_has_its_last_heartbeat() -> None:
    text = json.dumps({"members": [MEMBER, {**MEMBER, "member_id": "replica2", "last_heartbeat": "t1"}], "epoch": 2})
    assert heartbeats_in(text) == {"replica1": "t0", "replica2": "t1"}
    assert heartbeats_in('{"members": []}') == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "it has no list of members"),
        ('{"members": 1}', "it has no list of members"),
        ('{"members": [{"member_id": "a", "shards": "0"}]}', "a member lacks one of the texts"),
        (json.dumps({"members": [MEMBER, MEMBER]}), "the member 'replica1' is there twice"),
    ],
)
def test_other_texts_are_refused(text: str, fault: str) -> None:
    with pytest.raises(AttributeFaultError, match=f"^{fault}"):
        heartbeats_in(text)

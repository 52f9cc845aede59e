"""Checks the attributes of the state objects of streams, as far as the SC must understand them."""

import json
from collections.abc import Mapping

_MEMBER_FIELDS = ("member_id", "shards", "last_heartbeat")


class AttributeFaultError(Exception):
    """A text is not an attribute of a stream's state object; the message says what is wrong."""


def heartbeats_in(text: str) -> Mapping[str, str]:
    """Returns the last heartbeat of each member in an attribute. Raises AttributeFaultError."""
    try:
        attribute = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AttributeFaultError(f"it is not JSON: {error}") from error
    members = attribute.get("members") if isinstance(attribute, dict) else None
    if not isinstance(members, list):
        raise AttributeFaultError("it has no list of members")
    heartbeats: dict[str, str] = {}
    for member in members:
        if not isinstance(member, dict) or not all(isinstance(member.get(each), str) for each in _MEMBER_FIELDS):
            raise AttributeFaultError(f"a member lacks one of the texts {', '.join(_MEMBER_FIELDS)}")
        if member["member_id"] in heartbeats:
            raise AttributeFaultError(f"the member {member['member_id']!r:.100} is there twice")
        heartbeats[member["member_id"]] = member["last_heartbeat"]
    return heartbeats

"""`tailrace trigger state`: prints the state object of a stream, which says which replica handles which shards."""

import argparse
import json

from tailrace.cli.options.sc_options import Command, show_documents
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.stream_states import StreamGroupState
from tailrace.protocol.error_codes import ErrorCode

MEMBER_FIELDS = ("member_id", "shards", "last_heartbeat")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="Name of the topic.")
    parser.add_argument("--group", metavar="GROUP", help="Only the members of this consumer group.")


async def _state(client: ScClient, arguments: argparse.Namespace) -> None:
    reading = await client.read_stream_state(arguments.topic, arguments.group)
    if arguments.group is not None and arguments.group not in reading.groups:
        raise RefusedError(
            f"no trigger reads {arguments.topic} in the group {arguments.group}: its state object has no such group",
            ErrorCode.RESOURCE_NOT_FOUND,
        )
    members = {group: members_of(found) for group, found in reading.groups.items()}
    document: object = next(iter(members.values())) if len(members) == 1 else members
    show_documents(arguments, document, lambda: json.dumps(document, indent=2))


def members_of(found: StreamGroupState) -> list[dict[str, str]]:
    """Returns the members of a group, each with its shards and its last heartbeat."""
    try:
        return [{name: member[name] for name in MEMBER_FIELDS} for member in json.loads(found.attribute)["members"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreachableError(f"the SC sent a state object that this version cannot read: {error!r}") from error


COMMANDS = {"state": Command("trigger state", _options, _state, is_watchable=True)}

"""`tailrace trigger state`: prints the state object of a stream, which says which replica handles which shards."""

import argparse
import json

from tailrace.cli.options.sc_options import Command, show_documents
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.cluster.stream_state.stream_state import member_documents
from tailrace.protocol.error_codes import ErrorCode


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="Name of the topic.")
    parser.add_argument("--group", metavar="GROUP", help="Only the members of this consumer group.")


async def _state(client: ScClient, arguments: argparse.Namespace) -> None:
    groups = await client.read_stream_groups(arguments.topic)
    if arguments.group is not None and arguments.group not in groups:
        raise RefusedError(
            f"no trigger reads {arguments.topic} in the group {arguments.group}: its state object has no such group",
            ErrorCode.RESOURCE_NOT_FOUND,
        )
    members = {group: member_documents(found.state) for group, found in groups.items()}
    if arguments.group is not None or len(members) == 1:
        document: object = members[arguments.group or next(iter(members))]
    else:
        document = members
    show_documents(arguments, document, lambda: json.dumps(document, indent=2))


COMMANDS = {"state": Command("trigger state", _options, _state, is_watchable=True)}

"""The base of the commands about groups: how they find coordinators, and how they name members."""

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tailrace.cli.options.sc_options import Command
from tailrace.cli.options.spu_options import spu_command
from tailrace.client.group_client import GroupClient
from tailrace.client.group_facts import Member
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, reason_of
from tailrace.client.spu_client import SpuClient

MEMBERS_NAMED_MAX = 5

GroupAsk = Callable[[GroupClient, argparse.Namespace], Awaitable[None]]


def group_command(
    name: str, options: Callable[[argparse.ArgumentParser], None], ask: GroupAsk, *, is_watchable: bool = False
) -> Command:
    """Makes a command that asks the coordinators of groups."""

    async def asking(spus: SpuClient, arguments: argparse.Namespace) -> None:
        await ask(GroupClient(spus), arguments)

    return spu_command(f"group {name}", options, asking, is_watchable=is_watchable)


def raise_the_first(what: str, answers: Mapping[Partition, RefusedError | None]) -> None:
    """Raises the first refusal, if there is one; `what` says what it means."""
    for partition, refused in answers.items():
        if refused is not None:
            raise RefusedError(f"{what}: {partition}: {reason_of(refused)}", refused.code)


def members_text(members: Sequence[Member]) -> str:
    """Names the first members, and counts the others."""
    named = ", ".join(each.whereabouts for each in members[:MEMBERS_NAMED_MAX])
    more = len(members) - MEMBERS_NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named

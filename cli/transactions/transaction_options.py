"""The base of the commands about transactions: how they ask brokers."""

import argparse
from collections.abc import Awaitable, Callable

from tailrace.cli.options.sc_options import Command
from tailrace.cli.options.spu_options import spu_command
from tailrace.client.spu_client import SpuClient
from tailrace.client.transaction_client import TransactionClient

TransactionAsk = Callable[[TransactionClient, argparse.Namespace], Awaitable[None]]


def transaction_command(
    name: str, options: Callable[[argparse.ArgumentParser], None], ask: TransactionAsk, *, is_watchable: bool = False
) -> Command:
    """Makes a command that asks the coordinators of transactions, and the leaders of partitions."""

    async def asking(spus: SpuClient, arguments: argparse.Namespace) -> None:
        await ask(TransactionClient(spus), arguments)

    return spu_command(f"transaction {name}", options, asking, is_watchable=is_watchable)

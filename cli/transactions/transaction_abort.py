"""`tailrace transaction abort`: ends a transaction that its producer does not end, or one that hangs.

A transaction that a coordinator knows is ended by fencing its producer. One that no coordinator knows is ended by an
abort marker from this command, as `kafka-transactions.sh` does.
"""

import argparse

from tailrace.cli.options.sc_options import UsageError, offset, show_documents
from tailrace.cli.options.spu_options import named_partitions, named_topic
from tailrace.cli.output.printing import plain
from tailrace.client.log_facts import Partition
from tailrace.client.sc_client import Document
from tailrace.client.server_connection import RefusedError, unless_refused
from tailrace.client.transaction_client import TransactionClient
from tailrace.client.transaction_facts import Holder, OpenTransaction, Transaction

from .transaction_outlook import named


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "what",
        metavar="ID|TOPIC/P",
        help="Transactional id whose transaction to abort, or with --start-offset a partition.",
    )
    parser.add_argument(
        "--start-offset",
        metavar="N",
        type=offset,
        help="Abort the transaction that begins at this offset of the partition; for one that hangs.",
    )
    parser.add_argument(
        "--force", action="store_true", help="Abort a transaction that is ongoing: its producer is fenced."
    )
    parser.add_argument("--dry-run", action="store_true", help="Only show what would be aborted.")


async def abort(client: TransactionClient, arguments: argparse.Namespace) -> None:
    """Aborts a transaction, or shows what it would do."""
    if arguments.start_offset is None:
        transaction = unless_refused((await client.describe([arguments.what]))[arguments.what])
        await _abort_known(client, arguments, transaction)
        return
    holder = await _holder(client, arguments)
    if holder.transaction is not None and not holder.is_hanging:
        await _abort_known(client, arguments, holder.transaction)
    else:
        await _abort_hanging(client, arguments, holder.open)


async def _holder(client: TransactionClient, arguments: argparse.Namespace) -> Holder:
    """Returns the open transaction that begins at an offset of a partition. Raises RefusedError if there is none."""
    _, numbers = named_topic(arguments.what)
    if numbers is None or len(numbers) != 1:
        raise UsageError(f"{arguments.what}: with --start-offset, expected one partition such as orders/0")
    (partition,) = await named_partitions(client.logs, [arguments.what])
    found = await client.holders([partition])
    for each in found:
        if each.open.first_offset == arguments.start_offset:
            return each
    others = ", ".join(str(each.open.first_offset) for each in found)
    where = f"those in {partition} begin at {others}" if others else f"none is open in {partition}"
    raise RefusedError(f"no open transaction begins at offset {arguments.start_offset}: {where}")


async def _abort_known(client: TransactionClient, arguments: argparse.Namespace, transaction: Transaction) -> None:
    name = transaction.id
    if transaction.is_ending:
        raise RefusedError(
            f"the transaction of {name} is ending already ({transaction.state}), and cannot be changed: "
            f"`tailrace transaction explain {name}` says what its markers wait for"
        )
    if not transaction.is_open:
        raise RefusedError(f"{name} has no open transaction (its state is {transaction.state})")
    of_client = transaction.client.text if transaction.client is not None else ""
    who = f"producer {transaction.producer_id}, epoch {transaction.producer_epoch}"
    who += f", client {of_client}" if of_client else ""
    where = f" in {named(transaction.partitions)}" if transaction.partitions else ""
    if not arguments.force and not arguments.dry_run:
        raise RefusedError(
            f"the transaction of {name} is ongoing ({who}), and its producer may still commit it: stop the producer, "
            "or add --force to fence it and abort the transaction"
        )
    if arguments.dry_run:
        text = f"Would abort the ongoing transaction of {name}{where}, and fence its producer ({who})."
    else:
        await client.fence(transaction)
        text = f"Aborted the transaction of {name}{where}. Its producer ({who}) is fenced."
    document: Document = {
        "transactionalId": name,
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "partitions": [str(each) for each in transaction.partitions],
        "wasHanging": False,
    }
    _show(arguments, document, text)


async def _abort_hanging(client: TransactionClient, arguments: argparse.Namespace, opened: OpenTransaction) -> None:
    partition = opened.partition
    what = (
        f"the hanging transaction of producer {opened.producer_id}, epoch {opened.producer_epoch}, in {partition} from "
        f"offset {opened.first_offset} on"
    )
    if arguments.dry_run:
        text = f"Would write an abort marker for {what}."
    else:
        await client.abort_hanging(opened)
        text = f"Aborted {what}. {await _readable(client, partition)}"
    document: Document = {
        "transactionalId": None,
        "producerId": opened.producer_id,
        "producerEpoch": opened.producer_epoch,
        "partitions": [str(partition)],
        "wasHanging": True,
    }
    _show(arguments, document, text)


async def _readable(client: TransactionClient, partition: Partition) -> str:
    end = unless_refused((await client.stable_ends([partition]))[partition])
    text = f"Readers with read_committed now see {partition} up to offset {end.stable}"
    return f"{text}." if end.stable == end.committed else f"{text}; another transaction is open from there on."


def _show(arguments: argparse.Namespace, document: Document, text: str) -> None:
    if arguments.dry_run:
        how = (
            "leave out --dry-run" if document["wasHanging"] or arguments.force else "give --force instead of --dry-run"
        )
        text += f" Nothing was changed: {how} to do it."
    show_documents(arguments, document | {"executed": not arguments.dry_run}, lambda: plain(text))

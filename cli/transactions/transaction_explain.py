"""`tailrace transaction explain`: says who holds the last stable offset of partitions, and what happens next."""

import argparse
from collections.abc import Sequence

from msgspec import Struct

from tailrace.cli.options.sc_options import show_documents
from tailrace.cli.options.spu_options import named_topic, no_such_partition
from tailrace.cli.output.printing import counted, duration_text, plain, time_text
from tailrace.cli.output.tables import table
from tailrace.client.log_facts import Partition
from tailrace.client.sc_client import Document
from tailrace.client.server_connection import RefusedError, answered, unless_refused
from tailrace.client.transaction_client import TransactionClient
from tailrace.client.transaction_facts import Holder, OpenTransaction, StableEnd, Transaction
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.wall_clock import WallClock

from .transaction_options import TransactionAsk
from .transaction_outlook import Leaders, advice_on_hanging, named, outlook
from .transaction_tables import transaction_document

_TOPIC_CHARACTERS = frozenset(":/")


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "what", metavar="TOPIC[:P,P]|ID", help="Topic, some of its partitions, or a transactional id, to explain."
    )
    parser.add_argument("--id", action="store_true", help="The name is a transactional id, even if a topic has it too.")


def explaining(wall_clock: WallClock) -> TransactionAsk:
    """Makes the function that asks who holds the last stable offset, and prints the explanation."""

    async def explain(client: TransactionClient, arguments: argparse.Namespace) -> None:
        partitions = None if arguments.id else await _partitions(client, arguments.what)
        asked = None
        if partitions is None:
            asked = await _asked(client, arguments)
            partitions = list(asked.partitions)
        ends = answered(await client.stable_ends(partitions))
        holders = await client.holders([each for each in partitions if ends[each].stable < ends[each].committed])
        ending = [each for each in _transactions(holders, asked) if each.is_ending]
        leaders = await client.leaders([one for each in ending for one in each.partitions])
        found = Explanation(ends, holders, asked, leaders, wall_clock.now_ms())
        show_documents(arguments, explanation_document(found), lambda: explanation_text(found))

    return explain


async def _partitions(client: TransactionClient, name: str) -> list[Partition] | None:
    """Returns the partitions that a name means; None if it may be a transactional id, because there is no topic."""
    if name.count(":") + name.count("/") > 1:
        return None
    topic, numbers = named_topic(name) if _could_name_partitions(name) else (name, None)
    there = (await client.logs.partitions([topic]))[topic]
    if isinstance(there, RefusedError):
        if there.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            return None
        raise there
    wanted = there if numbers is None else [Partition(topic, number) for number in numbers]
    for each in wanted:
        if each not in there:
            raise no_such_partition(*each)
    return wanted


def _could_name_partitions(name: str) -> bool:
    _, _, numbers = name.replace("/", ":").partition(":")
    return bool(numbers) and numbers.replace(",", "").isdecimal()


async def _asked(client: TransactionClient, arguments: argparse.Namespace) -> Transaction:
    answer = (await client.describe([arguments.what]))[arguments.what]
    if isinstance(answer, RefusedError) and answer.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND and not arguments.id:
        raise RefusedError(f"there is neither a topic nor a transactional id {arguments.what}", answer.code)
    return unless_refused(answer)


class Explanation(Struct, frozen=True):
    """Everything that the command has found out."""

    ends: dict[Partition, StableEnd]
    holders: Sequence[Holder]
    asked: Transaction | None
    """The transactional id that the command line names; None if it names partitions."""
    leaders: Leaders
    now_ms: int


def _transactions(holders: Sequence[Holder], asked: Transaction | None = None) -> list[Transaction]:
    """Returns the transactions that will be ended by their coordinators, each once."""
    found = {each.transaction.id: each.transaction for each in holders if each.transaction and not each.is_hanging}
    if asked is not None:
        found[asked.id] = asked
    return list(found.values())


def explanation_text(found: Explanation) -> str:
    """Formats an explanation for people."""
    parts = [_table(found)] if found.holders else []
    parts += ["\n".join(map(plain, sentences(found)))]
    return "\n\n".join(parts)


def sentences(found: Explanation) -> list[str]:
    """Returns a paragraph for each transaction, and one about the partitions without any."""
    held = {each.open.partition for each in found.holders}
    texts = [_about(each, found) for each in _transactions(found.holders, found.asked)]
    texts += [_about_hanging(each, found) for each in found.holders if each.is_hanging]
    unstable = [each for each, end in found.ends.items() if end.stable < end.committed and each not in held]
    if unstable:
        texts.append(f"A marker was written, but is not committed yet, or was committed just now: {named(unstable)}.")
    free = [each for each in found.ends if each not in held and each not in unstable]
    if free and found.asked is None:
        where = str(free[0]) if len(free) == 1 else counted(len(free), "partition")
        texts.append(f"No transaction holds back readers of {where}.")
    return texts


def _about(transaction: Transaction, found: Explanation) -> str:
    mine = [
        each.open
        for each in found.holders
        if not each.is_hanging and each.transaction is not None and each.transaction.id == transaction.id
    ]
    text = f"{transaction.id} (producer {transaction.producer_id}, epoch {transaction.producer_epoch}"
    if transaction.client is not None and transaction.client.text:
        text += f", client {transaction.client.text}"
    text += ")"
    if transaction.began_ms is None:
        return f"{text}: {outlook(transaction, found.leaders, found.now_ms)}"
    age = duration_text(max(found.now_ms - transaction.began_ms, 0) / 1000)
    text += f" began a transaction at {time_text(transaction.began_ms)}, {age} ago"
    holding = [each.partition for each in mine if _holds(each, found)]
    text += f". It holds the last stable offset of {named(holding)}. " if holding else ". It holds back no reader. "
    return text + outlook(transaction, found.leaders, found.now_ms)


def _about_hanging(holder: Holder, found: Explanation) -> str:
    opened = holder.open
    holds = ", and holds the last stable offset there" if _holds(opened, found) else ""
    return (
        f"Producer {opened.producer_id}, epoch {opened.producer_epoch}, has an open transaction in {opened.partition} "
        f"from offset {opened.first_offset} on{holds}; it last wrote there at {time_text(opened.newest_ms)}. "
        + advice_on_hanging(holder)
    )


def _holds(opened: OpenTransaction, found: Explanation) -> bool:
    end = found.ends.get(opened.partition)
    return end is not None and opened.first_offset <= end.stable


def _table(found: Explanation) -> str:
    rows = []
    for each in found.holders:
        opened, end = each.open, found.ends[each.open.partition]
        rows.append(
            (
                opened.partition.topic,
                opened.partition.number,
                end.stable,
                end.committed,
                "hanging" if each.is_hanging or each.transaction is None else each.transaction.id,
                opened.producer_id,
                opened.producer_epoch,
                opened.first_offset,
                time_text(opened.newest_ms),
            )
        )
    titles = ("TOPIC", "PARTITION", "LAST STABLE", "END", "OPEN", "PRODUCER", "EPOCH", "FROM", "LAST RECORD")
    return table(titles, rows)


def explanation_document(found: Explanation) -> Document:
    """Makes a document of an explanation."""
    by_partition: dict[Partition, list[Holder]] = {}
    for each in found.holders:
        by_partition.setdefault(each.open.partition, []).append(each)
    return {
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.number,
                "lastStableOffset": end.stable,
                "highWatermark": end.committed,
                "open": [_holder_document(each) for each in by_partition.get(partition, ())],
            }
            for partition, end in found.ends.items()
        ],
        "transactions": [
            transaction_document(each, outlook(each, found.leaders, found.now_ms))
            for each in _transactions(found.holders, found.asked)
        ],
        "now": sentences(found),
    }


def _holder_document(holder: Holder) -> Document:
    opened = holder.open
    return {
        "transactionalId": None if holder.transaction is None else holder.transaction.id,
        "producerId": opened.producer_id,
        "producerEpoch": opened.producer_epoch,
        "coordinatorEpoch": opened.coordinator_epoch,
        "firstOffset": opened.first_offset,
        "lastRecord": time_text(opened.newest_ms),
        "isHanging": holder.is_hanging,
    }

"""Formats transactions as tables for people and documents for programs."""

from collections.abc import Mapping, Sequence

from tailrace.cli.output.printing import duration_text, time_text
from tailrace.cli.output.tables import fields, table
from tailrace.client.log_facts import Partition
from tailrace.client.sc_client import Document
from tailrace.client.transaction_facts import ListedTransaction, Transaction

from .transaction_outlook import named

# a list


def transaction_table(listed: Sequence[ListedTransaction], running: Mapping[str, Transaction]) -> str:
    """Formats a list of transactional ids; `running` describes those with an open or ending transaction."""
    return table(
        ("TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR", "BEGAN", "PARTITIONS"),
        [
            (
                each.id,
                each.state,
                each.producer_id,
                each.coordinator,
                None if (began_ms := _began_ms(running.get(each.id))) is None else time_text(began_ms),
                len(running[each.id].partitions) if each.id in running else None,
            )
            for each in listed
        ],
    )


def listed_document(listed: ListedTransaction, running: Transaction | None) -> Document:
    """Makes a document of a listed transactional id."""
    began_ms = _began_ms(running)
    return {
        "transactionalId": listed.id,
        "state": listed.state,
        "producerId": listed.producer_id,
        "coordinator": listed.coordinator,
        "began": None if began_ms is None else time_text(began_ms),
        "partitions": None if running is None else partition_names(running.partitions),
    }


def _began_ms(running: Transaction | None) -> int | None:
    return None if running is None else running.began_ms


# one transactional id


def description(transaction: Transaction, next_step: str, now_ms: int) -> str:
    """Describes a transactional id for people."""
    began_ms, client = transaction.began_ms, transaction.client
    open_for = "" if began_ms is None else duration_text(max(now_ms - began_ms, 0) / 1000)
    coordinator = f"SPU {transaction.coordinator}"
    if client is not None:
        coordinator += f", partition {client.partition} of __transaction_state, epoch {client.epoch}"
    return fields(
        [
            ("Transactional id", transaction.id),
            ("State", transaction.state),
            ("Producer", f"{transaction.producer_id}, epoch {transaction.producer_epoch}"),
            ("Client", None if client is None else client.text or "not seen since the coordinator has moved"),
            ("Began", None if began_ms is None else f"{time_text(began_ms)}, {open_for} ago"),
            ("Timeout", duration_text(transaction.timeout_ms / 1000)),
            ("Partitions", named(transaction.partitions)),
            ("Coordinator", coordinator),
            ("Next", next_step),
        ]
    )


def transaction_document(transaction: Transaction, next_step: str) -> Document:
    """Makes a document of a transactional id."""
    client = transaction.client
    return {
        "transactionalId": transaction.id,
        "state": transaction.state,
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "clientId": None if client is None else client.client_id,
        "host": None if client is None else client.host,
        "began": None if transaction.began_ms is None else time_text(transaction.began_ms),
        "timeoutMs": transaction.timeout_ms,
        "timesOut": None if transaction.deadline_ms is None else time_text(transaction.deadline_ms),
        "partitions": partition_names(transaction.partitions),
        "coordinator": {
            "spuId": transaction.coordinator,
            "partition": None if client is None else client.partition,
            "epoch": None if client is None else client.epoch,
            "since": None if client is None else time_text(client.loaded_ms),
        },
        "next": next_step,
    }


def partition_names(partitions: Sequence[Partition]) -> list[str]:
    """Returns partitions as documents name them."""
    return [str(each) for each in partitions]

"""`tailrace connection …`: lists the connections between SPUs and the SC."""

import argparse

from tailrace.cli.options.sc_options import Command, no_options, show_documents
from tailrace.cli.output.printing import duration_text
from tailrace.cli.output.tables import table
from tailrace.client.sc_client import Document, ScClient


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("connection")
    show_documents(arguments, documents, lambda: connection_table(documents))


def connection_table(documents: list[Document]) -> str:
    """Formats the connections. A disconnected SPU has no row, although it may be online until its lease expires."""
    rows = []
    for document in documents:
        status = document.get("status") or {}
        rows.append(
            (
                status.get("spuId"),
                status.get("address"),
                status.get("encryption"),
                status.get("softwareVersion"),
                duration_text(status.get("connectedMs", 0) / 1000),
                f"{status.get('leaseMsLeft', 0) / 1000:.1f} s",
                status.get("partitions"),
                status.get("metadataVersion"),
                "yes" if status.get("isUpToDate") else "no",
            )
        )
    return table(
        ("SPU", "FROM", "ENCRYPTION", "VERSION", "SINCE", "LEASE", "PARTITIONS", "METADATA", "UP TO DATE"), rows
    )


COMMANDS = {"list": Command("connection list", no_options, _list, is_watchable=True)}

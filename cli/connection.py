"""`tailrace connection …`: the streams between the SPUs and the SC, as the SC's Connection Manager has them."""

import argparse

from .sc_client import Document, ScClient
from .sc_commands import Command, show_documents
from .tables import table

_UNITS = (("d", 24 * 3600), ("h", 3600), ("m", 60))


def _list_options(parser: argparse.ArgumentParser) -> None:
    pass


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("connection")
    show_documents(arguments, documents, lambda: connection_table(documents))


def connection_table(documents: list[Document]) -> str:
    """An SPU that is away has no row, though it may still be online until its lease ends."""
    rows = []
    for document in documents:
        status = document.get("status") or {}
        rows.append(
            (
                status.get("spuId"),
                status.get("address"),
                status.get("softwareVersion"),
                _duration(status.get("connectedMs", 0) / 1000),
                f"{status.get('leaseMsLeft', 0) / 1000:.1f} s",
                status.get("partitions"),
                status.get("metadataVersion"),
                "yes" if status.get("isUpToDate") else "no",
            )
        )
    return table(("SPU", "FROM", "VERSION", "SINCE", "LEASE", "PARTITIONS", "METADATA", "UP TO DATE"), rows)


def _duration(seconds: float) -> str:
    """In the largest unit of which there is one."""
    for unit, unit_seconds in _UNITS:
        if seconds >= unit_seconds:
            return f"{seconds / unit_seconds:.0f} {unit}"
    return f"{seconds:.0f} s"


COMMANDS = {"list": Command("connection list", _list_options, _list)}

"""`tailrace controller …`: lists the controllers of the SC with their counts of objects, events and actions."""

import argparse

from tailrace.cli.options.sc_options import Command, no_options, show_documents
from tailrace.cli.output.tables import table
from tailrace.client.sc_client import Document, ScClient


async def _list(client: ScClient, arguments: argparse.Namespace) -> None:
    documents = await client.list_objects("controller")
    show_documents(arguments, documents, lambda: controller_table(documents))


def controller_table(documents: list[Document]) -> str:
    """Formats the controllers of the SC."""
    rows = []
    for document in documents:
        status = document.get("status") or {}
        rows.append((document.get("name"), status.get("objects"), status.get("events"), status.get("actions")))
    return table(("CONTROLLER", "OBJECTS", "EVENTS", "ACTIONS"), rows)


COMMANDS = {"list": Command("controller list", no_options, _list, is_watchable=True)}

"""`tailrace spu list` with `--bootstrap`: the brokers of a cluster, as any one of them describes them."""

import argparse

from tailrace.cli.options.sc_options import show_documents
from tailrace.cli.output.tables import table
from tailrace.client.admin_client import AdminClient


async def list_brokers(admin: AdminClient, arguments: argparse.Namespace) -> None:
    """Lists the brokers. A broker is offline if the cluster lets no client use it."""
    brokers = await admin.brokers()
    rows = [(each.id, each.rack, "Offline" if each.is_fenced else "Online", str(each.address)) for each in brokers]
    documents = [
        {
            "id": each.id,
            "rack": each.rack,
            "status": "Offline" if each.is_fenced else "Online",
            "host": each.address.host,
            "port": each.address.port,
        }
        for each in brokers
    ]
    show_documents(arguments, documents, lambda: table(("ID", "RACK", "STATUS", "PUBLIC"), rows))

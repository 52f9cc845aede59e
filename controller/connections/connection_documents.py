"""Describes the streams between SPUs and the SC as documents.

Streams are known only to the Connection Manager, and not stored.
"""

from msgspec import Struct

from tailrace.protocol.ids import SpuId

KIND = "connection"


class ConnectionRow(Struct, frozen=True):
    """The facts about the stream of one SPU."""

    spu: SpuId
    incarnation: str
    software_version: str
    address: str
    connected_seconds: float
    lease_seconds_left: float
    partitions: int
    """The number of partitions that should have a replica on the SPU."""
    metadata_version: int
    """The newest version of the mirror that the SPU has confirmed."""
    is_up_to_date: bool
    """Whether the SPU has confirmed everything."""
    tls_version: str = ""
    """The version of TLS of the stream; empty if it is not encrypted."""


def connection_document(row: ConnectionRow) -> dict[str, object]:
    """Returns the document of a connection, which has a status like an object, but no spec."""
    return {
        "kind": KIND,
        "name": str(row.spu),
        "status": {
            "spuId": int(row.spu),
            "address": row.address,
            "incarnation": row.incarnation,
            "softwareVersion": row.software_version,
            "connectedMs": round(row.connected_seconds * 1000),
            "leaseMsLeft": round(row.lease_seconds_left * 1000),
            "partitions": row.partitions,
            "metadataVersion": row.metadata_version,
            "isUpToDate": row.is_up_to_date,
            "encryption": row.tls_version or "PLAINTEXT",
        },
    }

"""The streams between SPUs and the SC as a person is shown them: the Connection Manager's cache, which no store has."""

from msgspec import Struct

from tailrace.protocol.ids import SpuId

KIND = "connection"


class ConnectionRow(Struct, frozen=True):
    """One stream."""

    spu: SpuId
    incarnation: str
    software_version: str
    address: str
    connected_seconds: float
    lease_seconds_left: float
    partitions: int
    """Of which the SPU is to have a replica."""
    metadata_version: int
    """The newest that the SPU has confirmed."""
    is_up_to_date: bool


def connection_document(row: ConnectionRow) -> dict[str, object]:
    """As for objects; all of it is status, for nobody asks for a connection."""
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
        },
    }

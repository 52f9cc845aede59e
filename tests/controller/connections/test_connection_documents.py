from msgspec.structs import replace

from tailrace.controller.connections.connection_documents import ConnectionRow, connection_document
from tailrace.protocol.ids import SpuId


def test_a_connection_is_called_as_its_spu_and_is_all_status() -> None:
    row = ConnectionRow(SpuId(11), "first", "1.2.3", "10.0.0.1:40000", 61.0004, 1.25, 3, 7, False)
    document = connection_document(row)
    status = document["status"]
    assert isinstance(status, dict)
    assert document == {
        "kind": "connection",
        "name": "11",
        "status": {
            "spuId": 11,
            "address": "10.0.0.1:40000",
            "incarnation": "first",
            "softwareVersion": "1.2.3",
            "connectedMs": 61000,
            "leaseMsLeft": 1250,
            "partitions": 3,
            "metadataVersion": 7,
            "isUpToDate": False,
            "encryption": "PLAINTEXT",
        },
    }
    encrypted = replace(row, tls_version="TLSv1.3")
    assert connection_document(encrypted)["status"] == {**status, "encryption": "TLSv1.3"}

from tailrace.controller.connections.connection_documents import ConnectionRow, connection_document
from tailrace.protocol.ids import SpuId


def test_a_connection_is_called_as_its_spu_and_is_all_status() -> None:
    row = ConnectionRow(SpuId(11), "first", "1.2.3", "10.0.0.1:40000", 61.0004, 1.25, 3, 7, False)
    assert connection_document(row) == {
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
        },
    }

from tailrace.cli.transactions.transaction_tables import description, transaction_document
from tailrace.client.transaction_facts import Transaction, TransactionClientName

IDLE = Transaction("billing-1", "Empty", 9, 3, 60_000, None, (), 1)


def test_a_client_that_the_coordinator_has_not_seen_is_not_a_client_that_it_does_not_tell() -> None:
    """Apache Kafka tells no clients at all."""
    assert "Client" not in description(IDLE, "next", 0)
    unseen = Transaction("billing-1", "Empty", 9, 3, 60_000, None, (), 1, TransactionClientName(None, None, 7, 2, 0))
    text = description(unseen, "next", 0)
    assert "Client:           not seen since the coordinator has moved\n" in text
    assert "SPU 1, partition 7 of __transaction_state, epoch 2\n" in text


def test_a_document_has_every_field_also_if_it_is_not_known() -> None:
    document = transaction_document(IDLE, "next")
    assert (document["clientId"], document["began"], document["timesOut"]) == (None, None, None)
    assert document["coordinator"] == {"spuId": 1, "partition": None, "epoch": None, "since": None}

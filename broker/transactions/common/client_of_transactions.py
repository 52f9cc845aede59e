"""The client that uses a transactional id."""

from typing import NamedTuple


class Client(NamedTuple):
    connection: int
    """The number that this SPU gave to the connection. Numbers grow in the order in which connections were accepted."""
    client_id: str
    address: str
    """The address of the client as Kafka writes it, for example "/127.0.0.1"."""

"""The objects in which the store lies: their names, labels and contents.

The head holds the newest transaction and says where the last snapshot is. Before the head is replaced, its transaction
is copied into an object of its own. A snapshot holds the contents after a transaction, in several parts.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tailrace.controller.key_value.interface import StoreCorrupt

from .kubernetes_api import CLUSTER_LABEL, TYPE_LABEL
from .transaction_log import Json, Stored, Transaction, decoded, encoded

HEAD_TYPE = "head"
TRANSACTION_TYPE = "transaction"
SNAPSHOT_TYPE = "snapshot"
LEASE_TYPE = "lease"


class SnapshotPlace(Struct, frozen=True):
    """Where a snapshot is, and after which transaction and revision it was made."""

    number: int
    revision: int
    parts: tuple[str, ...]


NO_SNAPSHOT = SnapshotPlace(0, 0, ())


class Head(Struct, frozen=True):
    """The newest transaction and the last snapshot before it."""

    transaction: Transaction
    snapshot: SnapshotPlace = NO_SNAPSHOT
    version: str = ""
    """The version that Kubernetes has given the object."""


class Names(Struct, frozen=True):
    """The names and labels of the objects of one cluster."""

    cluster: str

    @property
    def head(self) -> str:
        return f"{self.cluster}-head"

    def transaction(self, number: int) -> str:
        return f"{self.cluster}-transaction-{number:012}"

    def snapshot_part(self, number: int, unique: str, part: int) -> str:
        return f"{self.cluster}-snapshot-{number:012}-{unique}-{part}"

    def lease(self, unique: str) -> str:
        return f"{self.cluster}-lease-{unique}"

    def labels(self, kind: str) -> dict[str, str]:
        return {CLUSTER_LABEL: self.cluster, TYPE_LABEL: kind}

    def number_of(self, name: str) -> int:
        """Returns the number in the name of a transaction or of a part of a snapshot."""
        return int(name.removeprefix(f"{self.cluster}-").split("-")[1])


def head_spec(head: Head) -> Json:
    snapshot = head.snapshot
    place = {"number": snapshot.number, "revision": snapshot.revision, "parts": list(snapshot.parts)}
    return {"snapshot": place, **transaction_spec(head.transaction)}


def head_of(document: Any) -> Head:
    """Returns the head that an object holds. Raises StoreCorrupt if another program has written it."""
    try:
        place = document["spec"]["snapshot"]
        snapshot = SnapshotPlace(int(place["number"]), int(place["revision"]), tuple(place["parts"]))
        return Head(transaction_of(document), snapshot, str(document["metadata"]["resourceVersion"]))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreCorrupt(f"the head of the store in Kubernetes is damaged: {error!r}") from error


def transaction_spec(transaction: Transaction) -> Json:
    return {"number": transaction.number, "changes": [encoded(change) for change in transaction.changes]}


def transaction_of(document: Any) -> Transaction:
    """Returns the transaction that an object holds. Raises StoreCorrupt if another program has written it."""
    try:
        spec = document["spec"]
        return Transaction(int(spec["number"]), tuple(map(decoded, spec["changes"])))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreCorrupt(f"a transaction of the store in Kubernetes is damaged: {error!r}") from error


def snapshot_spec(number: int, stored: Sequence[Stored]) -> Json:
    return {"number": number, "changes": [encoded(each) for each in stored]}


def stored_in(document: Any) -> list[Stored]:
    """Returns the entries in a part of a snapshot."""
    return [change for change in transaction_of(document).changes if isinstance(change, Stored)]

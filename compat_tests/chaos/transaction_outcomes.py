"""What producers know about their transactions, and the rules for what readers of committed records may see."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from chaos.records import Log, Place
from msgspec import Struct


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The producer asked for the commit, and never learned the result."""


class Outcomes:
    """The transactions of one transactional id, by their numbers from 1 on."""

    def __init__(self, name: str, places: Sequence[Place], per_place: int) -> None:
        self.name = name
        self.places = places
        self.per_place = per_place
        """How many records each transaction writes to each partition."""
        self.by_number: dict[int, Outcome] = {}

    def begin(self) -> int:
        """Returns the number of a new transaction, which counts as aborted until its commit is asked for."""
        number = len(self.by_number) + 1
        self.by_number[number] = Outcome.ABORTED
        return number

    def values(self, number: int) -> list[str]:
        """Returns the values that the transaction writes to each partition, in this order."""
        return [f"{self.name}:{number}:{index}" for index in range(self.per_place)]

    def count(self, outcome: Outcome) -> int:
        return list(self.by_number.values()).count(outcome)


class Written(Struct, frozen=True, order=True):
    """The position of a record in the order of its producer."""

    number: int
    index: int


def contradictions(logs: Mapping[Place, Log], producers: Iterable[Outcomes]) -> list[str]:
    """Returns everything that is wrong with the committed records of these partitions."""
    found = []
    by_name: dict[str, dict[Place, list[Written]]] = defaultdict(lambda: defaultdict(list))
    for place, log in logs.items():
        for _, value in log:
            name, number, index = value.decode().rsplit(":", 2)
            by_name[name][place].append(Written(int(number), int(index)))
    for producer in producers:
        found += _contradictions(producer, by_name.pop(producer.name, {}))
    found += [f"{name} has written, and is no producer" for name in by_name]
    return found


def _contradictions(producer: Outcomes, seen: Mapping[Place, list[Written]]) -> list[str]:
    found = []
    counts: dict[int, list[int]] = {}
    for place in producer.places:
        records = seen.get(place, [])
        if records != sorted(set(records)):
            found.append(f"{producer.name}: {place}: records are repeated or out of order")
        for record in records:
            counts.setdefault(record.number, [0] * len(producer.places))[producer.places.index(place)] += 1
    whole = [producer.per_place] * len(producer.places)
    for number, outcome in producer.by_number.items():
        count = counts.pop(number, None)
        if count is not None and count != whole:
            found.append(f"{producer.name}: transaction {number} is torn: {count} of {whole} records")
        elif outcome is Outcome.COMMITTED and count is None:
            found.append(f"{producer.name}: transaction {number} was committed, and is lost")
        elif outcome is Outcome.ABORTED and count is not None:
            found.append(f"{producer.name}: transaction {number} was aborted, and is visible")
    return found + [f"{producer.name}: transaction {number} was never begun" for number in counts]


def copying_contradictions(source: Mapping[int, Log], target: Mapping[int, Log]) -> list[str]:
    """Returns the differences between the records of each partition and the copies that transactions made of them."""
    found = []
    for partition, log in source.items():
        wanted, copies = [value for _, value in log], [value for _, value in target[partition]]
        if lost := set(wanted) - set(copies):
            found.append(f"partition {partition}: {len(lost)} records were not processed, such as {sorted(lost)[:3]}")
        if len(set(copies)) < len(copies):
            found.append(f"partition {partition}: {len(copies) - len(set(copies))} records were processed twice")
        if not lost and len(copies) == len(wanted) and copies != wanted:
            found.append(f"partition {partition}: the copies are out of order, or of nothing that was read")
    return found

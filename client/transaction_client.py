"""Asks coordinators about transactions, and the leaders of partitions about what is open there; ends transactions.

The result for a refused transactional id or partition is the refusal; the results for the others are not affected.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.explain_transaction import ExplainTransactionRequest
from tailrace.protocol.messages import describe_transactions
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from .log_client import LATEST, LogClient
from .log_facts import Partition, by_topic
from .server_connection import ClosedError, RefusedError, answered, refusal, unless_refused
from .spu_client import SpuClient
from .transaction_facts import (
    Holder,
    ListedTransaction,
    OpenTransaction,
    StableEnd,
    Transaction,
    TransactionClientName,
    holders,
)

NO_FILTER = -1


class TransactionClient:
    """Asks about transactions through an `SpuClient`."""

    def __init__(self, spus: SpuClient) -> None:
        self._spus = spus
        self.logs = LogClient(spus)

    # asking coordinators

    async def listed(
        self,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        open_longer_than_ms: int = NO_FILTER,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Lists the transactional ids of all coordinators that pass all filters. Raises RefusedError."""
        request = ListTransactionsRequest(list(states), list(producer_ids), open_longer_than_ms, pattern)

        async def ask(spu_id: int, _: Sequence[int]) -> dict[int, Any]:
            response = await self._spus.ask(spu_id, request)
            refused = refusal(response)
            if refused is not None and refused.code == ErrorCode.INVALID_REGULAR_EXPRESSION:
                refused = RefusedError(f"{pattern} is not a valid regular expression", refused.code)
            return {spu_id: refused or response}

        found = []
        for spu_id, answer in (await self._spus.ask_each(await self._spus.spus(), _itself, ask)).items():
            for each in unless_refused(answer).transaction_states:
                found.append(ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state, spu_id))
        return sorted(found, key=lambda each: each.id)

    async def describe(self, ids: Sequence[str], *, with_clients: bool = True) -> dict[str, Transaction | RefusedError]:
        """Describes transactional ids. The clients that use them take a request for each id."""

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, Transaction | RefusedError]:
            response = await self._spus.ask(spu_id, DescribeTransactionsRequest(list(keys)))
            return {
                each.transactional_id: _not_found(each) or refusal(each) or _transaction(each, spu_id)
                for each in response.transaction_states
            }

        if not ids:
            return {}
        found = await self._spus.ask_each(ids, self._spus.transaction_coordinators, ask, prepares=with_clients)
        described = [each for each, answer in found.items() if isinstance(answer, Transaction)]
        clients = await self._clients(described if with_clients else [])
        return {
            each: replace(answer, client=clients.get(each)) if isinstance(answer, Transaction) else answer
            for each, answer in found.items()
        }

    async def _clients(self, ids: Sequence[str]) -> dict[str, TransactionClientName]:
        """Returns the client of each transactional id; Apache Kafka does not tell them."""

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, TransactionClientName | RefusedError]:
            found: dict[str, TransactionClientName | RefusedError] = {}
            for each in keys:
                try:
                    told = await self._spus.ask(spu_id, ExplainTransactionRequest(each))
                except ClosedError:
                    return dict.fromkeys(keys, RefusedError("only SPUs of Tailrace name the clients of transactions"))
                name = TransactionClientName(told.client_id, told.host, told.partition, told.epoch, told.loaded_ms)
                found[each] = refusal(told) or name
            return found

        answers = await self._spus.ask_each(ids, self._spus.transaction_coordinators, ask)
        return {each: answer for each, answer in answers.items() if isinstance(answer, TransactionClientName)}

    async def fence(self, transaction: Transaction) -> None:
        """Fences the producer of a transactional id, which aborts its open transaction. Raises RefusedError."""
        request = InitProducerIdRequest(transaction.id, transaction.timeout_ms)

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, RefusedError | None]:
            return dict.fromkeys(keys, refusal(await self._spus.ask(spu_id, request)))

        answers = await self._spus.ask_each([transaction.id], self._spus.transaction_coordinators, ask)
        unless_refused(answers[transaction.id])

    # asking the leaders of the logs

    async def stable_ends(self, partitions: Sequence[Partition]) -> dict[Partition, StableEnd | RefusedError]:
        """Returns how far partitions can be read with `read_committed`, and without."""
        if not partitions:
            return {}
        stable = await self.logs.offsets_at(partitions, LATEST, only_stable=True)
        committed = await self.logs.offsets_at(partitions, LATEST)
        found: dict[Partition, StableEnd | RefusedError] = {}
        for each in partitions:
            before, end = stable[each], committed[each]
            if isinstance(before, RefusedError):
                found[each] = before
            else:
                found[each] = end if isinstance(end, RefusedError) else StableEnd(before, end)
        return found

    async def open_in(self, partitions: Iterable[Partition]) -> dict[Partition, list[OpenTransaction] | RefusedError]:
        """Returns the transactions that are open in each partition, in the order of their first offsets."""

        async def ask(spu_id: int, keys: Sequence[Partition]) -> dict[Partition, list[OpenTransaction] | RefusedError]:
            request = DescribeProducersRequest([TopicRequest(*each) for each in by_topic(keys)])
            response = await self._spus.ask(spu_id, request)
            found: dict[Partition, list[OpenTransaction] | RefusedError] = {}
            for topic in response.topics:
                for each in topic.partitions:
                    partition = Partition(topic.name, each.partition_index)
                    found[partition] = refusal(each) or _open(partition, spu_id, each.active_producers)
            return found

        return await self._spus.ask_each(partitions, self.logs.leaders, ask)

    async def holders(self, partitions: Sequence[Partition]) -> list[Holder]:
        """Returns who holds the open transactions of partitions. Raises RefusedError.

        A transaction that seems to hang is looked at twice, because it may have ended between two questions.
        """
        if not partitions:
            return []
        opened = _flat(answered(await self.open_in(partitions)))
        found = holders(opened, await self._transactions_of(opened))
        seem_to_hang = {each.open.partition for each in found if each.is_hanging}
        if not seem_to_hang:
            return found
        again = _flat(answered(await self.open_in(sorted(seem_to_hang))))
        keys = {_key(each) for each in again}
        return [each for each in found if not each.is_hanging or _key(each.open) in keys]

    async def _transactions_of(self, opened: Sequence[OpenTransaction]) -> list[Transaction]:
        if not opened:
            return []
        listed = await self.listed(producer_ids=sorted({each.producer_id for each in opened}))
        described = await self.describe([each.id for each in listed])
        return [each for each in described.values() if isinstance(each, Transaction)]

    async def abort_hanging(self, opened: OpenTransaction) -> None:
        """Writes an abort marker where a transaction hangs. Raises RefusedError.

        The marker names the coordinator epoch that the leader knows, because no coordinator decides this.
        """
        marker = WritableTxnMarker(
            opened.producer_id,
            opened.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(*each) for each in by_topic([opened.partition])],
            coordinator_epoch=max(opened.coordinator_epoch, 0),
        )

        async def ask(spu_id: int, keys: Sequence[Partition]) -> dict[Partition, RefusedError | None]:
            response = await self._spus.ask(spu_id, WriteTxnMarkersRequest([marker]))
            results = [each for of in response.markers for topic in of.topics for each in topic.partitions]
            return {each: refusal(result) for each, result in zip(keys, results, strict=True)}

        answers = await self._spus.ask_each([opened.partition], self.logs.leaders, ask)
        unless_refused(answers[opened.partition])

    async def leaders(self, partitions: Sequence[Partition]) -> dict[Partition, int | RefusedError]:
        """Returns the leader of each partition, or why it has none."""
        return await self.logs.leaders(partitions) if partitions else {}


def _transaction(state: describe_transactions.TransactionState, coordinator: int) -> Transaction:
    partitions = sorted(Partition(topic.topic, number) for topic in state.topics for number in topic.partitions)
    found = Transaction(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        tuple(partitions),
        coordinator,
    )
    return found if found.is_open or found.is_ending else replace(found, began_ms=None)


def _not_found(state: describe_transactions.TransactionState) -> RefusedError | None:
    if state.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    return RefusedError(f"there is no transactional id {state.transactional_id}", state.error_code)


def _open(partition: Partition, leader: int, producers: Iterable[Any]) -> list[OpenTransaction]:
    found = [
        OpenTransaction(
            partition,
            leader,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.current_txn_start_offset,
            each.last_timestamp,
        )
        for each in producers
        if each.current_txn_start_offset >= 0
    ]
    return sorted(found, key=lambda each: each.first_offset)


def _flat(opened: Mapping[Partition, list[OpenTransaction]]) -> list[OpenTransaction]:
    return [each for of_partition in opened.values() for each in of_partition]


def _key(opened: OpenTransaction) -> tuple[Partition, int, int]:
    return opened.partition, opened.producer_id, opened.first_offset


async def _itself(spus: Sequence[int]) -> dict[int, int | RefusedError]:
    return {each: each for each in spus}

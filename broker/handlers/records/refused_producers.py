"""Logs the producers that were refused for their own state, such as an epoch that is over: one line per producer.

A client library may hide such an error behind a general one, or retry without end. The line says which client it is.
"""

from collections import OrderedDict

from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.server.request_context import RequestContext

REMEMBERED_MAX = 1000
"""How many producers are remembered. Beyond it, the producer that was logged first may be logged again."""

_NAME_CHARACTERS_MAX = 200
_LOGGED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""The errors that no retry helps against."""


class RefusedProducers:
    """The producers of this SPU's clients whose refusal was logged."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._logged: OrderedDict[tuple[int, int], None] = OrderedDict()
        """Producer ids and epochs in the order of their lines."""

    def on_refused(
        self,
        context: RequestContext,
        transactional_id: str | None,
        partition: str,
        records: Buffer | None,
        error: KafkaError,
    ) -> None:
        """Logs the producer of a refused batch, unless the error is another one or the producer was logged already."""
        if error.code not in _LOGGED or records is None:
            return
        try:
            header = read_header(records)
        except KafkaError:
            return
        producer = header.producer_id, header.producer_epoch
        if header.producer_id < 0 or producer in self._logged:
            return
        self._logged[producer] = None
        if len(self._logged) > REMEMBERED_MAX:
            self._logged.popitem(last=False)
        self._logger.warning(
            "producer_refused",
            reason=error.message or error.code.name,
            error=error.code.name,
            partition=_shortened(partition),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            transactional_id=_shortened(transactional_id),
            client_id=_shortened(context.client_id),
            client=context.client.address,
            software=context.client.software_name,
        )


def _shortened(name: str | None) -> str | None:
    """Shortens a name from a client, so that it cannot fill the log."""
    return name if name is None or len(name) <= _NAME_CHARACTERS_MAX else f"{name[:_NAME_CHARACTERS_MAX]}…"

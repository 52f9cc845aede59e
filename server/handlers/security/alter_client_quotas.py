"""AlterClientQuotas, versions 0–1: sets and removes limits; each entity succeeds or fails for itself.

- All changes of an entity take effect together, or none does. With `validate_only` they are only checked.
- An entity that the request names twice is refused, as in Kafka.
- Addresses are written as numbers. Kafka also takes names of hosts, and looks them up once.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntryData,
)
from tailrace.security.quotas.quota_rules import QuotaError, changed_values, checked_entity
from tailrace.security.records.quota_record import QuotaEntity, QuotaRecord
from tailrace.security.records.security_records import QUOTA, SecurityRecord, key_of
from tailrace.server.administration import SecurityEdit
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(
    host: AdministeringHost, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    planned: list[_Alteration | KafkaError] = []
    for entry in request.entries:
        try:
            planned.append(_alteration(entry))
        except QuotaError as error:
            planned.append(KafkaError(ErrorCode.INVALID_REQUEST, str(error)))
    times_named = Counter(each.entity for each in planned if isinstance(each, _Alteration))
    for number, each in enumerate(planned):
        if isinstance(each, _Alteration) and times_named[each.entity] > 1:
            planned[number] = KafkaError(ErrorCode.INVALID_REQUEST, "the request names this entity twice")
    wanted = [each for each in planned if isinstance(each, _Alteration)]
    outcomes = [] if request.validate_only else await _carry_out(host, wanted)
    of_entity = {each.entity: outcome for each, outcome in zip(wanted, outcomes, strict=False)}
    return AlterClientQuotasResponse(
        entries=[
            _row(entry, of_entity.get(each.entity) if isinstance(each, _Alteration) else each)
            for entry, each in zip(request.entries, planned, strict=True)
        ]
    )


class _Alteration(Struct, frozen=True):
    """The changes of the limits of one entity; None removes a limit."""

    entity: QuotaEntity
    changes: Sequence[tuple[str, float | None]]

    def apply(self, stored: SecurityRecord | None) -> QuotaRecord | None:
        """Returns the record after the changes; None if no limit is left. Raises KafkaError."""
        current = stored.values if isinstance(stored, QuotaRecord) else {}
        try:
            values = changed_values(self.entity, current, self.changes)
        except QuotaError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        return QuotaRecord(self.entity, values) if values else None


def _alteration(entry: EntryData) -> _Alteration:
    entity = checked_entity([(each.entity_type, each.entity_name) for each in entry.entity])
    changes = [(op.key, None if op.remove else op.value) for op in entry.ops]
    changed_values(entity, {}, changes)
    return _Alteration(entity, changes)


async def _carry_out(host: AdministeringHost, wanted: Sequence[_Alteration]) -> Sequence[KafkaError | None]:
    edits = [SecurityEdit(QUOTA, key_of(QuotaRecord(each.entity, {})), each.apply) for each in wanted]
    try:
        return await host.administration.change_security(edits=edits) if edits else []
    except KafkaError as error:
        return [error] * len(edits)


def _row(entry: EntryData, error: KafkaError | None) -> AlterClientQuotasResponseEntryData:
    if error is None:
        return AlterClientQuotasResponseEntryData(error_message=None, entity=entry.entity)
    return AlterClientQuotasResponseEntryData(error.code, error.message or None, entry.entity)

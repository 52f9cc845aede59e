"""AlterUserScramCredentials, version 0: creates, changes and deletes the SCRAM credentials of users.

A user may have one credential for each mechanism. The client salts the password, so the server never sees it. A request
may name a user only once, as in Apache Kafka.
"""

from collections import Counter
from collections.abc import Callable

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tailrace.security.records.security_records import USER, SecurityRecord
from tailrace.security.records.user_record import ScramCredential, UserRecord
from tailrace.security.sasl.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_CODES, credential_of_salted
from tailrace.server.administration import SecurityEdit
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext

_Change = ScramCredentialDeletion | ScramCredentialUpsertion


async def handle(
    host: AdministeringHost, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    counts = Counter(change.name for change in changes)
    results: dict[str, KafkaError | None] = {}
    edits: list[SecurityEdit] = []
    for change in changes:
        try:
            if counts[change.name] > 1:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            edits.append(SecurityEdit(USER, change.name, _edit(change)))
        except KafkaError as error:
            results[change.name] = error
    if edits:
        outcomes = await host.administration.change_security(edits=edits)
        results |= {edit.key: outcome for edit, outcome in zip(edits, outcomes, strict=True)}
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(name, error.code if error else 0, error.message if error else None)
            for name, error in results.items()
        ]
    )


def _edit(change: _Change) -> Callable[[SecurityRecord | None], SecurityRecord | None]:
    """Returns the change of the user's record. Raises KafkaError."""
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = SCRAM_CODES.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        return lambda record: _without(record, mechanism)
    credential = _credential(change, mechanism)
    return lambda record: _with(record, change.name, credential)


def _credential(upsertion: ScramCredentialUpsertion, mechanism: str) -> ScramCredential:
    if upsertion.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not upsertion.salt or not upsertion.salted_password:
        # Apache Kafka stores such a credential, and every login with it fails.
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty")
    return credential_of_salted(
        mechanism, bytes(upsertion.salted_password), bytes(upsertion.salt), upsertion.iterations
    )


def _with(record: SecurityRecord | None, name: str, credential: ScramCredential) -> UserRecord:
    """Returns the user with a new credential, which replaces the one for the same mechanism."""
    others = _others(record, credential.mechanism)
    return UserRecord(name, tuple(sorted((*others, credential), key=lambda each: each.mechanism)))


def _without(record: SecurityRecord | None, mechanism: str) -> UserRecord | None:
    """Returns the user without the credential for a mechanism; None if no credential is left. Raises KafkaError."""
    others = _others(record, mechanism)
    if not isinstance(record, UserRecord) or len(others) == len(record.credentials):
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return UserRecord(record.name, others) if others else None


def _others(record: SecurityRecord | None, mechanism: str) -> tuple[ScramCredential, ...]:
    if not isinstance(record, UserRecord):
        return ()
    return tuple(each for each in record.credentials if each.mechanism != mechanism)

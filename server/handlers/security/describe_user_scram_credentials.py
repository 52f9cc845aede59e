"""DescribeUserScramCredentials, version 0: the mechanisms and iterations of users. Their keys are never shown.

An empty or missing list of users stands for all users. A user without credentials does not exist.
"""

from collections import Counter

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from tailrace.security.records.user_record import UserRecord
from tailrace.security.sasl.scram_keys import SCRAM_CODES
from tailrace.server.host import Host
from tailrace.server.request_context import RequestContext


def handle(
    host: Host, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    users = host.cluster.security.users
    if request.users:
        named = Counter(each.name for each in request.users)
    else:
        named = Counter(name for name, user in sorted(users.items()) if user.credentials)
    results = [_describe(name, users.get(name), is_twice=count > 1) for name, count in named.items()]
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _describe(name: str, user: UserRecord | None, *, is_twice: bool) -> DescribeUserScramCredentialsResult:
    if is_twice:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if user is None or not user.credentials:
        return DescribeUserScramCredentialsResult(
            name, ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {name}"
        )
    infos = [
        CredentialInfo(code, credential.iterations)
        for code, mechanism in SCRAM_CODES.items()
        if (credential := user.credential(mechanism)) is not None
    ]
    return DescribeUserScramCredentialsResult(name, ErrorCode.NONE, None, infos)

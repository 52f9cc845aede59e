from hosts import ControllerHost, request_of
from sasl_samples import alice

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tailrace.security.records.user_record import UserRecord
from tailrace.security.sasl.scram_keys import SCRAM_MECHANISMS
from tailrace.server.handlers.security.describe_user_scram_credentials import handle

Row = tuple[str, int, list[tuple[int, int]]]


def describe(*names: str, everything: bool = False) -> list[Row]:
    host = ControllerHost()
    host.cluster.security.put(UserRecord("alice", tuple(alice(mechanism) for mechanism in SCRAM_MECHANISMS)))
    host.cluster.security.put(UserRecord("bob", (alice("SCRAM-SHA-512"),)))
    host.cluster.security.put(UserRecord("nobody", ()))
    request = DescribeUserScramCredentialsRequest(None if everything else [UserName(name) for name in names])
    response = handle(host, request_of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS), request)
    assert response.error_code == 0
    return [
        (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in response.results
    ]


ALL: list[Row] = [("alice", 0, [(1, 4096), (2, 4096)]), ("bob", 0, [(2, 4096)])]


def test_without_names_all_users_with_credentials_are_described() -> None:
    assert describe() == describe(everything=True) == ALL


def test_named_users_are_described_in_their_order() -> None:
    assert describe("bob", "alice") == [ALL[1], ALL[0]]


def test_users_that_do_not_exist_or_are_named_twice_have_errors() -> None:
    assert describe("alice", "mallory", "nobody", "bob", "bob") == [
        ALL[0],
        ("mallory", ErrorCode.RESOURCE_NOT_FOUND, []),
        ("nobody", ErrorCode.RESOURCE_NOT_FOUND, []),
        ("bob", ErrorCode.DUPLICATE_RESOURCE, []),
    ]

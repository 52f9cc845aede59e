"""Creates users and access rules of a secured broker.

Each broker gets each request, because it then knows the user or the rule when it has responded. A repeated request
changes nothing.
"""

import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from tailrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.security.acls.acl_codes import CodeError, Operation, PatternType, Permission, ResourceType, code_of
from tailrace.security.sasl.scram_keys import ITERATIONS, SALT_BYTES, SCRAM_CODES, salt_of, salt_password

from .broker_connection import ask, check
from .broker_error import BrokerError
from .client_login import MECHANISM, ClientLogin

PASSWORD_BYTES = 18
_USERS_VERSION, _RULES_VERSION = 0, 3
_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}
_SAVED = re.compile(r'username="([^"]*)" password="([^"]*)"')


def saved_login(directory: Path, bootstrap: str) -> ClientLogin:
    """Returns the first user, from the files that `tailrace up --secure` makes in a directory. Raises BrokerError."""
    path = directory / "client.properties"
    try:
        found = _SAVED.search(path.read_text())
    except OSError as error:
        raise BrokerError(f"the first user of the broker is unknown: {error}") from error
    if found is None:
        raise BrokerError(f"{path} has no name and password")
    return ClientLogin(bootstrap, found[1], found[2], str(directory / "ca.pem"))


def create_user(admin: ClientLogin, name: str, password: str | None) -> ClientLogin:
    """Creates a user, or changes the password; a password is made if none is given. Raises BrokerError."""
    login = ClientLogin(admin.bootstrap, name, password or secrets.token_urlsafe(PASSWORD_BYTES), admin.authority)
    salt = salt_of(secrets.token_bytes(SALT_BYTES))
    salted = salt_password(MECHANISM, login.password, salt, ITERATIONS)
    (code,) = (code for code, mechanism in SCRAM_CODES.items() if mechanism == MECHANISM)
    request = AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion(name, code, ITERATIONS, salt, salted)])
    for address in admin.bootstrap.split(","):
        for each in ask(address, admin, request, _USERS_VERSION).results:
            check(each.error_code, each.error_message, f"the user {name} was not created")
    return login


def allow(admin: ClientLogin, user: ClientLogin | str, operations: Sequence[str], **resources: str | None) -> None:
    """Creates an access rule for each operation and resource. Raises BrokerError.

    `resources` are the names of a topic, a group and a transactional id.
    """
    principal = f"User:{user}" if isinstance(user, str) else user.principal
    named = {_KINDS[kind]: name for kind, name in resources.items() if name is not None}
    if not operations or not named:
        raise BrokerError("an access rule needs an operation and a topic, group or transactional id")
    rules = [rule(principal, operation, kind, name) for operation in operations for kind, name in named.items()]
    for address in admin.bootstrap.split(","):
        for each in ask(address, admin, CreateAclsRequest(rules), _RULES_VERSION).results:
            check(each.error_code, each.error_message, "the access rule was not created")


def rule(principal: str, operation: str, kind: ResourceType, name: str) -> AclCreation:
    """Returns a rule that allows an operation. Raises BrokerError."""
    try:
        code = code_of(Operation, operation)
    except CodeError as error:
        raise BrokerError(f"the operation {error}") from error
    is_prefix = name.endswith("*") and name != "*"
    pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    return AclCreation(kind, name.removesuffix("*") or name, pattern, principal, "*", code, Permission.ALLOW)

"""The guards of the APIs of delegation tokens: a client sees its own tokens, and others if rules say so."""

from typing import Any

from tailrace.security.acls.acl_codes import Operation, ResourceType
from tailrace.server.request_context import Reply, RequestContext

from .access import Access
from .authorization import Handle
from .authorization_row import Row
from .refused_requests import refused_with


def create_token(row: Row, access: Access, handle: Handle, context: RequestContext, request: Any) -> Reply:
    """Lets a client create a token for itself, and for another owner if it may create the owner's tokens."""
    (check,) = row.checks
    if request.owner_principal_name:
        # Without a type, the handler creates a token for an owner of the client's own type.
        owner = f"{request.owner_principal_type or access.principal.kind}:{request.owner_principal_name}"
        if owner != str(access.principal) and not access.allows(check, owner):
            return refused_with(row, request, check.error, access.refusal(check, owner))
    return handle(context, request)


def describe_tokens(row: Row, access: Access, handle: Handle, context: RequestContext, request: Any) -> Reply:
    """Shows a client the tokens that it owns or may renew, and others that rules let it describe."""

    def is_shown(token: Any) -> bool:
        owner = (token.principal_type, token.principal_name)
        renewers = {(each.principal_type, each.principal_name) for each in token.renewers}
        return (
            tuple(access.principal) in renewers | {owner}
            or access.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or access.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, ":".join(owner))
        )

    def amend(response: Any) -> Any:
        response.tokens = [token for token in response.tokens if is_shown(token)]
        return response

    context.amend = amend
    return handle(context, request)

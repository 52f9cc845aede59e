"""The guards of most APIs: those that are allowed as a whole, and those whose items are checked one by one."""

from collections.abc import Callable, Sequence
from typing import Any

from tailrace.protocol.apis import message_class
from tailrace.security.acls.acl_codes import CLUSTER_NAME, ResourceType
from tailrace.server.request_context import Reply, RequestContext

from .access import Access
from .authorization import Handle
from .authorization_row import Check, Row
from .refused_items import ITEM_RULES
from .refused_requests import refused_with

Amend = Callable[[Any], Any]
"""Corrects the response of a handler."""


def whole(row: Row, access: Access, handle: Handle, context: RequestContext, request: Any) -> Reply:
    """Lets a request through if it passes all checks."""
    refused = refused_as_a_whole(row, access, row.checks, request)
    return handle(context, request) if refused is None else refused


def each(row: Row, access: Access, handle: Handle, context: RequestContext, request: Any) -> Reply:
    """Lets those items of a request through that pass the last check, if the request passes the checks before it."""
    *before, check = row.checks
    refused = refused_as_a_whole(row, access, tuple(before), request)
    if refused is not None:
        return refused
    items, name_of, answer, results = ITEM_RULES[row.api]
    asked = getattr(request, items)
    allowed, denied = access.split(check, asked, lambda item: name_of(access, item))
    if not denied:
        return handle(context, request)
    rows = [answer(item, check.error, access.refusal(check, name_of(access, item) or "")) for item in denied]
    if not allowed:
        response: object = message_class(row.api, "Response")(**{results: rows})
        return response

    context.amend = with_refused(results, rows)
    setattr(request, items, allowed)
    return handle(context, request)


def with_refused(results: str, rows: Sequence[Any]) -> Amend:
    """Returns the function that adds the rows of refused items to a field of the response."""

    def amend(response: Any) -> Any:
        getattr(response, results).extend(rows)
        return response

    return amend


def with_allowed(access: Access, check: Check, results: str, name_of: Callable[[Any], str | None]) -> Amend:
    """Returns the function that leaves those items in a field of the response that pass a check."""

    def amend(response: Any) -> Any:
        allowed, _ = access.split(check, getattr(response, results), name_of)
        setattr(response, results, allowed)
        return response

    return amend


def refused_as_a_whole(row: Row, access: Access, checks: tuple[Check, ...], request: Any) -> object | None:
    """Returns the response to a request that fails one of the checks; None if it passes all."""
    for check in checks:
        name = CLUSTER_NAME if check.resource == ResourceType.CLUSTER else getattr(request, check.field)
        if not access.allows(check, name):
            return refused_with(row, request, check.error, access.refusal(check, name))
    return None

"""Responds with the result of rare work."""

from tailrace.protocol.apis import Api
from tailrace.protocol.codec.compile import decode
from tailrace.protocol.codec.headers import response_with_body

from .request_context import EncodedBody, RequestContext


def respond_with(context: RequestContext, message: object, api: Api) -> None:
    """Responds with a message, or with a body that another server has encoded.

    A body is decoded only if something in the response may have to change: its time to wait, or items for which the
    client has no permission.
    """
    if not isinstance(message, EncodedBody):
        context.respond(message)
    elif context.meter is not None or context.amend is not None:
        body = memoryview(message.body)
        context.respond(decode(api.response, context.api_version, body, elements_max=len(body)))
    else:
        context.respond_with([response_with_body(api, context.api_version, context.correlation_id, message.body)])

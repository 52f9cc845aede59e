"""Clients of delegation tokens whose requests an SPU forwards to the SC."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from running_workflow import RunningWorkflow, running_workflow

from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.compile import decode, encode_whole
from tailrace.protocol.internal.forward import ForwardRequest
from tailrace.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

SECRET = {"delegation.token.secret.key": "key", "delegation.token.expiry.time.ms": "1000"}


@asynccontextmanager
async def running_tokens(**broker: str) -> AsyncIterator[RunningWorkflow]:
    """Runs an SC with delegation tokens that have to be renewed after a second."""
    async with running_workflow(broker={**SECRET, **broker}) as running:
        yield running


async def ask(
    running: RunningWorkflow,
    api_key: ApiKey,
    request: object,
    principal: str = "User:alice",
    version: int | None = None,
    protocol: str = "SASL_SSL",
    is_token: bool = False,
) -> Any:
    """Returns the response to a request of a principal, after encoding it."""
    api = API_TABLE[api_key]
    version = api.max_version if version is None else version
    message = ForwardRequest(api_key, version, encode_whole(request, version), principal, "192.0.2.1")
    message.protocol, message.is_token = protocol, is_token
    return decode(api.response, version, (await running.host.forward(message)).body)


async def create(
    running: RunningWorkflow, *renewers: str, principal: str = "User:alice", **changes: Any
) -> CreateDelegationTokenResponse:
    """Creates a token with users as renewers."""
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers("User", name) for name in renewers], max_lifetime_ms=-1, **changes
    )
    response = await ask(running, ApiKey.CREATE_DELEGATION_TOKEN, request, principal)
    assert isinstance(response, CreateDelegationTokenResponse)
    return response

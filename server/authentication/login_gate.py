"""Keeps a client from sending other requests before its login, or large ones, or none at all."""

import math
from typing import Any

import trio

from tailrace.protocol.codec.primitives import Part
from tailrace.server.inbox import Inbox
from tailrace.server.request_context import ClientLogin

LOGIN_SECONDS_MAX = 30.0
"""How long a new client of a listener with SASL may take to log in. Clients take less than a second."""


class LoginGate:
    """The bounds of one connection on a listener with SASL. They end with the first login."""

    __slots__ = ("_inbox", "_request_bytes_max", "_serving", "login")

    def __init__(self, login: ClientLogin, inbox: Inbox, serving: trio.CancelScope) -> None:
        """`serving` is the scope in which the connection is served. It ends if the client does not log in."""
        self.login = login
        self._inbox = inbox
        self._serving = serving
        self._request_bytes_max = inbox.limit(login.message_bytes_max)
        serving.deadline = trio.current_time() + LOGIN_SECONDS_MAX

    def lift_if_logged_in(self) -> None:
        """Lifts the bounds if the client has logged in."""
        if self.login.has_logged_in:
            self._serving.deadline = math.inf
            self._inbox.limit(self._request_bytes_max)


def encode_raw_token(correlation_id: int, message: Any) -> list[Part]:
    """Encodes the answer to bytes without a header: its size, and the bytes."""
    return [len(message).to_bytes(4, "big") + message]

"""The exchanges of SASL as targets: each reads one message of a client, without a connection around it."""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from sasl_samples import ALICE, NOW_MS, PASSWORD, find_alice, finish, key_set, token

from tailrace.security.sasl.bearer_exchange import BearerExchange
from tailrace.security.sasl.bearer_keys import parse_key_set
from tailrace.security.sasl.bearer_tokens import BearerTokens
from tailrace.security.sasl.client_exchange import BearerClient, ClientExchange, PlainClient, ScramClient
from tailrace.security.sasl.plain_exchange import KnownPasswords, PlainExchange
from tailrace.security.sasl.sasl_steps import Authenticated, Challenge, Refused, SaslExchange, Step
from tailrace.security.sasl.scram_exchange import ScramExchange
from tailrace.security.sasl.scram_keys import SCRAM_MECHANISMS
from tailrace.security.settings.sasl_settings import parse_sasl_settings
from tailrace.security.settings.setting_texts import SettingTexts

from .targets import Target

NONCE = "0123456789abcdef"
_BEARER = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere",
    "sasl.oauthbearer.expected.audience": "tailrace",
}


class LoginRefusedError(Exception):
    """The exchange refuses what the client has sent."""


def sasl_targets() -> Iterator[Target]:
    """Yields a target for each message that a client sends with SASL."""
    yield _target("PLAIN", [], lambda: PlainClient("alice", PASSWORD), _plain)
    yield _target("OAUTHBEARER", [], lambda: BearerClient(token()), _bearer)
    for mechanism in SCRAM_MECHANISMS:
        client = partial(ScramClient, mechanism, "alice", PASSWORD, "client-nonce")
        server = partial(_scram, mechanism)
        yield _target(f"{mechanism} first", [], client, server)
        yield _target(f"{mechanism} final", [client().first()], client, server)


def _plain() -> SaslExchange:
    return PlainExchange(partial(find_alice, SCRAM_MECHANISMS[0]), KnownPasswords(b"secret"))


def _scram(mechanism: str) -> SaslExchange:
    return ScramExchange(mechanism, partial(find_alice, mechanism), NONCE)


def _bearer() -> SaslExchange:
    settings = parse_sasl_settings(SettingTexts(_BEARER), "PUBLIC").bearer
    assert settings is not None
    keys = parse_key_set(key_set())
    return BearerExchange(BearerTokens(settings, lambda: keys, lambda: NOW_MS).verify)


def _target(
    name: str, before: list[bytes], client: Callable[[], ClientExchange], server: Callable[[], SaslExchange]
) -> Target:
    """Makes the target of the message that follows those `before` it."""

    def read(data: bytes) -> Step:
        exchange = server()
        for earlier in before:
            assert isinstance(finish(exchange, earlier), Challenge)
        step = finish(exchange, data)
        if isinstance(step, Refused):
            raise LoginRefusedError
        if isinstance(step, Authenticated):
            assert step.principal == ALICE, f"the client has become {step.principal}"
        return step

    def samples(random: Random) -> list[bytes]:
        asking, answering = client(), server()
        data = asking.first()
        for earlier in before:
            challenge = finish(answering, earlier)
            assert isinstance(challenge, Challenge)
            answer = asking.step(challenge.data)
            assert answer is not None
            data = answer
        return [data]

    return Target(f"SASL {name}", read, samples, (LoginRefusedError,))

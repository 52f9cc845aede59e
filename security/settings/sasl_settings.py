"""The settings of SASL on one listener: mechanisms, sessions, and what is required of bearer tokens."""

from urllib.parse import urlsplit

from msgspec import Struct

from tailrace.runtime.settings import SettingsError
from tailrace.security.sasl.bearer_exchange import MECHANISM as OAUTHBEARER
from tailrace.security.sasl.bearer_tokens import BearerRules
from tailrace.security.sasl.plain_exchange import MECHANISM as PLAIN
from tailrace.security.sasl.scram_keys import SCRAM_MECHANISMS

from .setting_texts import SettingTexts

MECHANISMS = (*SCRAM_MECHANISMS, PLAIN, OAUTHBEARER)
KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_BEARER_PREFIX = "sasl.oauthbearer."
DELAY_MS_MAX = 10_000
_NUMBER_MAX = 2**31 - 1


class SaslSettings(Struct, frozen=True):
    """Everything that a listener needs for SASL."""

    mechanisms: tuple[str, ...]
    lifetime_ms_max: int
    """How long a login lasts; 0 if it lasts as long as the connection or the credential."""
    message_bytes_max: int
    """The largest request before the client has logged in."""
    delay_seconds: float
    """How long a client waits for the answer to a login that failed."""
    bearer: BearerRules | None
    """The rules for bearer tokens; None if OAUTHBEARER is not enabled."""
    keys_url: str | None
    """Where the key set for bearer tokens is: a URL that begins with file:// or https://."""
    keys_seconds: float
    """How long a key set is used before it is read again."""


def parse_sasl_settings(texts: SettingTexts, listener: str) -> SaslSettings:
    """Parses the settings of SASL of a listener. Raises SettingsError."""
    mechanisms = texts.listed("sasl.enabled.mechanisms", listener) or SCRAM_MECHANISMS
    for each in mechanisms:
        if each not in MECHANISMS:
            raise SettingsError(
                f"{texts.name_of('sasl.enabled.mechanisms', listener)}: {each[:50]!r} is not supported; it takes "
                f"{', '.join(MECHANISMS)}"
            )
    has_bearer = OAUTHBEARER in mechanisms
    keys_url = texts.of(KEYS_URL, listener)
    if has_bearer:
        _check_keys_url(texts, listener, keys_url)
    elif keys_url is not None:
        raise SettingsError(
            f"{texts.name_of(KEYS_URL, listener)} has no effect, because sasl.enabled.mechanisms lacks {OAUTHBEARER}"
        )
    return SaslSettings(
        mechanisms=mechanisms,
        lifetime_ms_max=_number(texts, "connections.max.reauth.ms", listener, 0),
        message_bytes_max=_number(texts, "sasl.server.max.receive.size", listener, 512 * 1024),
        delay_seconds=_number(texts, "connection.failed.authentication.delay.ms", "", 100, DELAY_MS_MAX) / 1000,
        bearer=_bearer_rules(texts, listener) if has_bearer else None,
        keys_url=keys_url,
        keys_seconds=_number(texts, f"{_BEARER_PREFIX}jwks.endpoint.refresh.ms", listener, 3_600_000) / 1000,
    )


def _check_keys_url(texts: SettingTexts, listener: str, url: str | None) -> None:
    """Refuses a URL from which keys could come that somebody else has chosen."""
    if url is None:
        raise SettingsError(
            f"{OAUTHBEARER} needs the keys that sign tokens: set {KEYS_URL} to a URL such as file:///etc/keys.json"
        )
    parts = urlsplit(url)
    is_file = parts.scheme == "file" and not parts.netloc and parts.path.startswith("/")
    is_https = parts.scheme == "https" and parts.hostname and not parts.username
    if not (is_file or is_https) or (parts.query and is_file) or parts.fragment:
        raise SettingsError(
            f"{texts.name_of(KEYS_URL, listener)}: {url[:200]!r} is not a URL of a file (file:///PATH) or of an"
            " encrypted server (https://HOST/PATH)"
        )


def _bearer_rules(texts: SettingTexts, listener: str) -> BearerRules:
    return BearerRules(
        issuer=texts.of(f"{_BEARER_PREFIX}expected.issuer", listener),
        audiences=texts.listed(f"{_BEARER_PREFIX}expected.audience", listener),
        required_scopes=texts.listed(f"{_BEARER_PREFIX}required.scope", listener),
        scope_claim=texts.of(f"{_BEARER_PREFIX}scope.claim.name", listener) or "scope",
        name_claim=texts.of(f"{_BEARER_PREFIX}sub.claim.name", listener) or "sub",
        skew_seconds=_number(texts, f"{_BEARER_PREFIX}clock.skew.seconds", listener, 30, 3600),
    )


def _number(texts: SettingTexts, name: str, listener: str, default: int, largest: int = _NUMBER_MAX) -> int:
    text = texts.of(name, listener)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > largest:
        raise SettingsError(
            f"{texts.name_of(name, listener)}: {text[:100]!r} is not a whole number from 0 to {largest}"
        )
    return int(text)

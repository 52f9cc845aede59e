"""The settings of the authorizer: whether there is one, who may do everything, and what applies without rules."""

from msgspec import Struct

from tailrace.runtime.settings import SettingsError
from tailrace.security.identity.principal import PrincipalError, parse_principal

from .setting_texts import SettingTexts

AUTHORIZER = "authorizer.class.name"
SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
OURS = "tailrace"
KAFKAS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The name of Kafka's authorizer, so that settings of a Kafka cluster can be used."""


class AuthorizerSettings(Struct, frozen=True):
    """The settings of an authorizer."""

    super_users: tuple[str, ...] = ()
    """The principals that may do everything."""
    allows_everyone_without_rule: bool = False
    """Whether everybody may use a resource that no rule is about."""


def parse_authorizer_settings(texts: SettingTexts) -> AuthorizerSettings | None:
    """Returns the settings of the authorizer; None if there is none. Raises SettingsError."""
    if not texts.one_of(AUTHORIZER, (OURS, KAFKAS), ""):
        for name in (SUPER_USERS, ALLOW_EVERYONE):
            if texts.of(name) is not None:
                raise SettingsError(f"{name} has no effect without an authorizer: set {AUTHORIZER} to {OURS}")
        return None
    entries = [entry.strip() for entry in (texts.of(SUPER_USERS) or "").split(";")]
    users = tuple(dict.fromkeys(entry for entry in entries if entry))
    for user in users:
        try:
            parse_principal(user)
        except PrincipalError as error:
            raise SettingsError(f"{SUPER_USERS}: {error}, and divide several with semicolons") from error
    return AuthorizerSettings(users, texts.one_of(ALLOW_EVERYONE, ("true", "false"), "false") == "true")

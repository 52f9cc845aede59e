"""The settings of the authorizer."""

import pytest

from tailrace.runtime.settings import SettingsError
from tailrace.security.settings.authorizer_settings import KAFKAS, AuthorizerSettings, parse_authorizer_settings
from tailrace.security.settings.setting_texts import SettingTexts


def _parse(**given: str) -> AuthorizerSettings | None:
    return parse_authorizer_settings(SettingTexts({name.replace("_", "."): text for name, text in given.items()}))


def test_without_a_name_there_is_no_authorizer() -> None:
    assert _parse() is None
    assert _parse(authorizer_class_name="") is None


@pytest.mark.parametrize("name", ["tailrace", KAFKAS])
def test_our_name_and_that_of_kafka_turn_it_on(name: str) -> None:
    assert _parse(authorizer_class_name=name) == AuthorizerSettings()
    assert _parse(
        authorizer_class_name=name,
        super_users=" User:admin ; User:CN=a,O=b ;",
        allow_everyone_if_no_acl_found="true",
    ) == AuthorizerSettings(("User:admin", "User:CN=a,O=b"), allows_everyone_without_rule=True)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"super_users": "User:admin"}, "no effect without an authorizer"),
        ({"allow_everyone_if_no_acl_found": "true"}, "no effect without an authorizer"),
        ({"authorizer_class_name": "org.example.Mine"}, "takes one of tailrace"),
        ({"authorizer_class_name": "tailrace", "super_users": "admin"}, "write it as User:NAME"),
        ({"authorizer_class_name": "tailrace", "allow_everyone_if_no_acl_found": "yes"}, "takes one of true, false"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        _parse(**given)

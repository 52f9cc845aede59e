import pytest

from tailrace.runtime.settings import SettingsError
from tailrace.security.settings.setting_texts import SettingTexts


def test_the_override_of_a_listener_takes_precedence() -> None:
    texts = SettingTexts({"ssl.client.auth": "none", "listener.name.public_1.ssl.client.auth": "required"})
    assert texts.of("ssl.client.auth") == texts.of("ssl.client.auth", "PUBLIC") == "none"
    assert texts.of("ssl.client.auth", "PUBLIC_1") == "required"
    assert texts.name_of("ssl.client.auth", "PUBLIC_1") == "listener.name.public_1.ssl.client.auth"
    assert texts.overrides() == [("public_1", "ssl.client.auth")]


def test_an_empty_text_is_none() -> None:
    assert SettingTexts({"a": " "}).of("a") is None


def test_lists_lose_repetitions_and_have_no_empty_entries() -> None:
    assert SettingTexts({"a": "x, y,x"}).listed("a") == ("x", "y")
    with pytest.raises(SettingsError, match="a: an entry"):
        SettingTexts({"a": "x,,y"}).listed("a")


def test_the_texts_are_not_shown() -> None:
    assert "opensesame" not in repr(SettingTexts({"ssl.key.password": "opensesame"}))

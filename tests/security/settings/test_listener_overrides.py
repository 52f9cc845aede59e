from tailrace.security.settings.listener_overrides import override_of, split_override


def test_an_override_names_the_listener_in_small_letters() -> None:
    name = override_of("ssl.client.auth", "PUBLIC_1")
    assert name == "listener.name.public_1.ssl.client.auth"
    assert split_override(name) == ("public_1", "ssl.client.auth")


def test_other_names_are_no_overrides() -> None:
    assert split_override("ssl.client.auth") is None
    assert split_override("listener.name.public") is None

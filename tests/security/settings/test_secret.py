from tailrace.security.settings.secret import Secret


def test_a_secret_is_shown_nowhere() -> None:
    secret = Secret("opensesame")
    assert "opensesame" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "opensesame"


def test_secrets_are_equal_if_their_texts_are() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a")}) == 1

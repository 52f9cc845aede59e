"""The interface of delegation tokens."""

from security_samples import TOKEN

from tailrace.server.token_administration import IssuedToken


def test_the_text_of_a_token_does_not_contain_its_hmac() -> None:
    assert repr(IssuedToken(TOKEN, b"secret")) == "IssuedToken(t1)"

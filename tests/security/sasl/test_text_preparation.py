import pytest

from tailrace.security.sasl.text_preparation import PreparationError, check_text, prepare


@pytest.mark.parametrize(
    ("text", "prepared"),
    [("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b")],
)
def test_saslprep_gives_the_forms_of_rfc_4013(text: str, prepared: str) -> None:
    assert prepare(text) == prepared


@pytest.mark.parametrize("text", ["\u0007", "\u0627\u0031", "\ud7ff\ue000", "\u0221"])
def test_saslprep_refuses_what_rfc_4013_prohibits(text: str) -> None:
    with pytest.raises(PreparationError):
        prepare(text)


def test_a_text_that_saslprep_changes_is_refused_because_kafkas_clients_do_not_apply_it() -> None:
    check_text("pa ss=wörd")
    for text in ("", "I\u00adX", "\u2168"):
        with pytest.raises(PreparationError):
            check_text(text)

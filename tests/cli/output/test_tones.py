from tailrace.cli.output.tones import Tone, Toned, tone_of


def test_a_toned_text_is_a_text() -> None:
    assert Toned(5, Tone.BAD) == "5"


def test_a_status_has_a_tone_of_its_own_in_a_column_for_statuses() -> None:
    assert tone_of("STATUS", "Offline") is Tone.BAD
    assert tone_of("Status", "Offline") is Tone.BAD
    assert tone_of("STATE", "PreparingRebalance") is Tone.WARNING
    assert tone_of("STATUS", "Online") is None
    assert tone_of("NAME", "Offline") is None, "a topic may be called so"


def test_a_given_tone_wins() -> None:
    assert tone_of("STATUS", Toned("Offline", Tone.FAINT)) is Tone.FAINT

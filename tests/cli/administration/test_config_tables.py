"""Configs are explained in words, and secrets are hidden."""

from tailrace.cli.administration.config_tables import config_table, document_of, explained
from tailrace.client.admin_client import Config, ConfigSynonym

RETENTION = Config(
    "retention.ms",
    "60000",
    1,
    is_read_only=False,
    is_sensitive=False,
    type=5,
    documentation="How long records are kept.",
    synonyms=(ConfigSynonym("retention.ms", "60000", 1), ConfigSynonym("log.retention.hours", "168", 5)),
)
PASSWORD = Config("ssl.key.password", "secret", 4, True, True, 9, None, ())


def test_a_config_is_explained_with_what_it_would_be_otherwise() -> None:
    assert explained(RETENTION) == (
        "retention.ms = 60000\n"
        "  from: topic; type: long\n"
        "  without that: 168 (default, log.retention.hours)\n"
        "  How long records are kept."
    )


def test_a_secret_is_hidden_everywhere() -> None:
    shown = f"{config_table([PASSWORD])} {explained(PASSWORD)} {document_of(PASSWORD)}"
    assert "secret" not in shown.replace("'sensitive'", "")
    assert "it cannot be changed while the broker runs" in shown


def test_a_source_that_is_not_known_keeps_its_number() -> None:
    assert document_of(Config("a", "1", 42, False, False, 1, None, ()))["source"] == "source 42"

from collections.abc import Mapping

import pytest

from tailrace.cli.options.server_choice import Answerer, ServerChoiceError, choose_servers

SC, BOOTSTRAP = "TAILRACE_SC", "TAILRACE_BOOTSTRAP"
ONLY_SC = "only the SC can answer this, and {} names brokers: name the SC of that cluster with --sc or TAILRACE_SC"


def _chosen(answerer: Answerer, environment: Mapping[str, str], sc: str | None, bootstrap: str | None) -> str:
    chosen = choose_servers(sc, bootstrap, environment, answerer)
    return f"{'brokers' if chosen.are_brokers else 'SC'} {','.join(map(str, chosen.addresses))}"


@pytest.mark.parametrize(
    ("environment", "sc", "bootstrap", "expected"),
    [
        ({}, None, None, "SC 127.0.0.1:9003"),
        ({SC: "a:1"}, None, None, "SC a:1"),
        ({SC: ""}, None, None, "SC 127.0.0.1:9003"),
        ({BOOTSTRAP: "b:1, c:2"}, None, None, "brokers b:1,c:2"),
        ({SC: "a:1", BOOTSTRAP: "b:1"}, None, None, "brokers b:1"),
        ({SC: "a:1", BOOTSTRAP: ""}, None, None, "SC a:1"),
        ({SC: "a:1", BOOTSTRAP: "b:1"}, "d:1", None, "SC d:1"),
        ({SC: "a:1", BOOTSTRAP: "b:1"}, None, "e:1", "brokers e:1"),
        ({SC: "a:1"}, None, "e:1", "brokers e:1"),
    ],
)
def test_a_flag_decides_and_then_the_bootstrap_variable(
    environment: dict[str, str], sc: str | None, bootstrap: str | None, expected: str
) -> None:
    assert _chosen(Answerer.EITHER, environment, sc, bootstrap) == expected


@pytest.mark.parametrize(
    ("environment", "sc", "expected"),
    [
        ({}, None, "SC 127.0.0.1:9003"),
        ({SC: "a:1", BOOTSTRAP: "b:1"}, None, "SC a:1"),
        ({BOOTSTRAP: "b:1"}, "d:1", "SC d:1"),
    ],
)
def test_what_only_the_sc_answers_goes_to_it(environment: dict[str, str], sc: str | None, expected: str) -> None:
    assert _chosen(Answerer.SC, environment, sc, None) == expected


def test_a_bootstrap_address_alone_is_no_sc() -> None:
    with pytest.raises(ServerChoiceError) as refused:
        _chosen(Answerer.SC, {BOOTSTRAP: "b:1"}, None, None)
    assert str(refused.value) == ONLY_SC.format("TAILRACE_BOOTSTRAP")
    with pytest.raises(ServerChoiceError) as refused:
        _chosen(Answerer.SC, {SC: "a:1"}, None, "e:1")
    assert str(refused.value) == ONLY_SC.format("--bootstrap")


@pytest.mark.parametrize("answerer", [Answerer.SC, Answerer.EITHER])
def test_both_flags_together_are_refused(answerer: Answerer) -> None:
    with pytest.raises(ServerChoiceError, match="give only one of them"):
        _chosen(answerer, {}, "a:1", "b:1")


def test_a_command_that_finds_brokers_by_itself_gets_the_sc() -> None:
    assert _chosen(Answerer.BOTH, {BOOTSTRAP: "b:1"}, "a:1", "e:1") == "SC a:1"
    assert _chosen(Answerer.BOTH, {BOOTSTRAP: "b:1"}, None, None) == "SC 127.0.0.1:9003"

import shlex

import pytest
from msgspec.structs import replace

from tailrace.cli.main import parse
from tailrace.cli.serving.given_settings import given_settings
from tailrace.cli.serving.managed_spus import ManagedSpus, child_command, child_variables
from tailrace.cli.serving.serve_spu import NAMES, read_settings
from tailrace.cli.serving.serving import LogSettings, log_settings
from tailrace.controller.objects.objects import (
    Encryption,
    PrivateEndpoint,
    PublicEndpoint,
    Spu,
    SpuGroup,
    SpuGroupSpec,
    SpuSpec,
    SpuTemplate,
    SpuType,
)
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings, SpuSettings

SC = Address("127.0.0.1", 9004)
DEFAULTS = ManagedSpus(
    "/data",
    (
        ListenerSettings("PUBLIC", Address("127.0.0.1", 9005)),
        ListenerSettings("PUBLIC_1", Address("127.0.0.1", 9092)),
    ),
    ListenerSettings("PRIVATE", Address("127.0.0.1", 9006), may_move=True),
    ListenerSettings("METRICS", Address("127.0.0.1", 9008), may_move=True),
    {"num.partitions": "3"},
    are_listeners_chosen=False,
)


def _spu(number: int, group: str = "main", **spec: object) -> Spu:
    return Spu(replace(SpuSpec(SpuId(number), SpuType.MANAGED, group=group), **spec))  # type: ignore[arg-type]


def _ports(managed: ManagedSpus, spu: Spu) -> list[int]:
    settings = managed.settings_of(spu, SC)
    assert settings.metrics is not None
    return [each.address.port for each in (*settings.listeners, settings.private, settings.metrics)]


def test_the_first_spu_has_the_port_of_kafka_too_and_the_others_stand_ten_ports_apart() -> None:
    assert _ports(DEFAULTS, _spu(1)) == [9005, 9092, 9006, 9008]
    assert _ports(DEFAULTS, _spu(2)) == [9015, 9102, 9016, 9018]
    assert _ports(DEFAULTS, _spu(3)) == [9025, 9112, 9026, 9028]


@pytest.mark.parametrize(("number", "group"), [(1, "main"), (2, "main"), (11, "more")])
def test_each_spu_can_be_reached_by_each_listener(number: int, group: str) -> None:
    listeners = DEFAULTS.settings_of(_spu(number, group), SC).listeners
    assert [each.name for each in listeners] == ["PUBLIC", "PUBLIC_1"]


def test_only_ports_that_nobody_expects_may_move() -> None:
    assert [each.may_move for each in DEFAULTS.settings_of(_spu(1), SC).listeners] == [False, False]
    assert [each.may_move for each in DEFAULTS.settings_of(_spu(2), SC).listeners] == [True, True]


def test_of_private_ports_and_those_of_metrics_only_those_of_the_first_spu_can_be_chosen() -> None:
    chosen = replace(
        DEFAULTS,
        private=ListenerSettings("PRIVATE", Address("h", 7006)),
        metrics=ListenerSettings("METRICS", Address("h", 7008)),
    )
    first, second = (chosen.settings_of(_spu(number), SC) for number in (1, 2))
    assert (first.private, first.metrics) == (chosen.private, chosen.metrics)
    assert (second.private.address.port, second.private.may_move) == (7016, True)
    assert second.metrics is not None
    assert (second.metrics.address.port, second.metrics.may_move) == (7018, True)


def test_chosen_ports_that_are_some_tens_apart_lead_no_two_spus_to_one_port() -> None:
    def ports(private: int, metrics: int) -> list[list[int]]:
        chosen = replace(
            DEFAULTS,
            private=ListenerSettings("PRIVATE", Address("h", private)),
            metrics=ListenerSettings("METRICS", Address("h", metrics)),
        )
        return [_ports(chosen, _spu(number))[-2:] for number in (1, 2, 3)]

    assert ports(7006, 7016) == [[7006, 7016], [0, 7026], [0, 7036]]
    assert ports(7016, 7006) == [[7016, 7006], [0, 0], [0, 7026]]


def test_chosen_listeners_follow_one_another_as_does_what_clients_are_told_and_stay_put() -> None:
    chosen = ListenerSettings("PUBLIC", Address("0.0.0.0", 9092), Address("broker.example", 19092))
    managed = replace(DEFAULTS, listeners=(chosen,), are_listeners_chosen=True)
    assert managed.settings_of(_spu(3), SC).listeners == (
        ListenerSettings("PUBLIC", Address("0.0.0.0", 9094), Address("broker.example", 19094)),
    )


def test_what_nobody_chose_makes_way_for_the_chosen_ports_of_other_spus() -> None:
    chosen = replace(DEFAULTS, listeners=(ListenerSettings("PUBLIC", Address("h", 9005)),), are_listeners_chosen=True)
    assert _ports(chosen, _spu(1)) == [9005, 0, 0]
    assert _ports(chosen, _spu(2)) == [9006, 0, 0]
    assert _ports(chosen, _spu(10)) == [9014, 9096, 9098], "so many SPUs nobody leaves ports to"
    given = replace(chosen, private=ListenerSettings("PRIVATE", Address("h", 9016)))
    assert _ports(given, _spu(2)) == [9006, 9026, 0], "what somebody wants there stays there"


def test_a_free_port_stays_one_and_no_port_is_too_high() -> None:
    free = replace(DEFAULTS, listeners=(ListenerSettings("PUBLIC", Address("h", 0)),))
    assert _ports(free, _spu(5))[0] == 0
    assert _ports(DEFAULTS, _spu(10_000, "main"))[0] == 0


def test_other_groups_take_the_ports_of_their_template_and_do_not_meet() -> None:
    endpoints = {"public": PublicEndpoint(9005), "private": PrivateEndpoint(9006)}
    assert _ports(DEFAULTS, _spu(11, "more", **endpoints))[:3] == [9105, 0, 9106]
    assert _ports(DEFAULTS, _spu(12, "more", **endpoints))[:3] == [9115, 0, 9116]
    settings = DEFAULTS.settings_of(_spu(11, "more"), SC)
    assert all(each.may_move for each in (*settings.listeners, settings.private))


@pytest.mark.parametrize(
    ("name", "template", "refusal"),
    [
        (
            "main",
            SpuTemplate(public=PublicEndpoint(9500)),
            "template: the endpoints of the group main follow from --pu",
        ),
        (
            "main",
            SpuTemplate(private=PrivateEndpoint(9500)),
            "template: the endpoints of the group main follow from --p",
        ),
        ("main", SpuTemplate(rack="a"), None),
        ("more", SpuTemplate(public=PublicEndpoint(9500)), None),
        ("more", SpuTemplate(public=PublicEndpoint(9500, ())), None),
        (
            "more",
            SpuTemplate(public=PublicEndpoint(encryption=Encryption.TLS)),
            "template.publicEndpoint.encryption: the listener PUBLIC uses TLS and has no certificate: ",
        ),
        (
            "more",
            SpuTemplate(
                public=PublicEndpoint(encryption=Encryption.TLS), configs={"ssl.keystore.location": "/server.pem"}
            ),
            None,
        ),
        (
            "more",
            SpuTemplate(public=PublicEndpoint(9500, ("other",))),
            "template.publicEndpoint.ingress: 'other' would h",
        ),
        (
            "more",
            SpuTemplate(private=PrivateEndpoint(9500, "other")),
            "template.privateEndpoint.host: 'other' would have",
        ),
    ],
)
def test_a_template_that_would_have_no_effect_is_refused(name: str, template: SpuTemplate, refusal: str | None) -> None:
    before, wanted = SpuGroup(name, SpuGroupSpec()), SpuGroup(name, SpuGroupSpec(template=template))
    assert (DEFAULTS.refusal(wanted, before) or "").startswith(refusal or "")
    assert (DEFAULTS.refusal(wanted, before) is None) == (refusal is None)
    assert DEFAULTS.refusal(wanted, wanted) is None, "what does not change may be scaled"


def test_an_spu_has_its_own_directory_and_its_groups_configs() -> None:
    settings = DEFAULTS.settings_of(_spu(2, rack="a", configs={"num.partitions": "4", "x": "y"}), SC)
    assert settings.data_directory == "/data/spu-2"
    assert settings.rack == "a"
    assert settings.broker == {"num.partitions": "4", "x": "y"}
    assert settings.controllers == (SC,)
    elsewhere = DEFAULTS.settings_of(_spu(2, log_directory="/disk"), SC)
    assert elsewhere.data_directory == "/disk/spu-2"


@pytest.mark.parametrize("metrics", [None, ListenerSettings("METRICS", Address("127.0.0.1", 1), flag="--metrics")])
@pytest.mark.parametrize("rack", [None, "rack a"])
def test_a_child_reads_from_its_command_line_what_it_was_to_have(
    metrics: ListenerSettings | None, rack: str | None
) -> None:
    managed = replace(
        DEFAULTS,
        listeners=(
            ListenerSettings("PUBLIC", Address("::1", 1), flag="--public"),
            ListenerSettings("PUBLIC_1", Address("h", 0), Address("g", 7), flag="--public"),
        ),
        private=ListenerSettings("PRIVATE", Address("h", 2), flag="--private"),
        metrics=metrics,
        are_listeners_chosen=True,
    )
    settings = managed.settings_of(_spu(1, rack=rack), SC)
    log = LogSettings("debug", "json")
    command = child_command(settings, log)
    words = command[command.index("tailrace") + 1 :]
    arguments = parse(words)
    given = given_settings(NAMES, arguments)
    assert read_settings(given) == settings
    assert log_settings(given) == log
    assert arguments.until_input_ends
    assert shlex.join(words).startswith("serve spu ")


def test_published_ports_are_consecutive_and_reach_the_child_process() -> None:
    everywhere = (ListenerSettings("PUBLIC", Address("0.0.0.0", 9092)),)
    managed = replace(DEFAULTS, listeners=everywhere, are_listeners_chosen=True, published=Address("192.0.2.7", 19092))
    third = managed.settings_of(_spu(3), SC)
    assert (third.listeners[0].address.port, third.published) == (9094, Address("192.0.2.7", 19094))
    command = child_command(third, LogSettings("info", None))
    arguments = parse(command[command.index("tailrace") + 1 :])
    assert read_settings(given_settings(NAMES, arguments)).published == third.published
    assert managed.settings_of(_spu(11, "more"), SC).published is None, "only ports of `main` are published"
    high = replace(managed, published=Address("192.0.2.7", 65535))
    assert high.settings_of(_spu(2), SC).published is None


def test_secrets_reach_children_in_their_environment() -> None:
    broker = {
        "num.partitions": "3",
        "ssl.key.password": "opensesame",
        "listener.name.private.ssl.key.password": "mellon",
    }
    settings = SpuSettings(1, "/data", (), broker=broker)
    command = child_command(settings, LogSettings("info", None))
    assert "num.partitions=3" in command
    assert not any("opensesame" in word or "mellon" in word for word in command)
    assert child_variables(settings) == {
        "TAILRACE_BROKER_SSL_KEY_PASSWORD": "opensesame",
        "TAILRACE_BROKER_LISTENER_NAME_PRIVATE_SSL_KEY_PASSWORD": "mellon",
    }


def test_the_endpoint_of_a_group_chooses_the_protocol_of_its_listener() -> None:
    encrypted = {"public": PublicEndpoint(encryption=Encryption.TLS)}
    more = DEFAULTS.settings_of(_spu(11, "more", **encrypted), SC)
    assert more.broker == {"num.partitions": "3", "listener.security.protocol.map": "PUBLIC:SSL"}
    assert DEFAULTS.settings_of(_spu(11, "more"), SC).broker == {"num.partitions": "3"}

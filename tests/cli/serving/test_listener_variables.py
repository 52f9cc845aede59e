from tailrace.cli.serving.listener_variables import listener_overrides
from tailrace.runtime.settings_sources import broker_variable_of


def test_settings_of_single_listeners_have_variables() -> None:
    names = ["listener.name.public_1.ssl.client.auth", "listener.name.private.ssl.key.password"]
    assert listener_overrides(map(broker_variable_of, names)) == names


def test_other_variables_are_none_of_them() -> None:
    assert (
        listener_overrides(
            (
                "HOME",
                "TAILRACE_BROKER_SSL_CLIENT_AUTH",
                "TAILRACE_BROKER_LISTENER_NAME_PUBLIC_NUM_PARTITIONS",
                "TAILRACE_BROKER_LISTENER_NAME_OTHER_SSL_CLIENT_AUTH",
            )
        )
        == []
    )

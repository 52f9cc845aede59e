import pytest

pytest_plugins = ["pytester"]

PLUGINS = ("-p", "tailrace.testing.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def _only_our_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads no installed plug-ins in the inner pytest, because this environment may or may not have ours installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_tests_share_a_broker_and_have_their_own_topics(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def tailrace_settings():
            return {"num.partitions": "7"}
        """
    )
    pytester.makepyfile(
        """
        import pytest
        seen = []

        @pytest.mark.parametrize("number", [1, 2])
        def test_one(tailrace_broker, number):
            seen.append((tailrace_broker.bootstrap, tailrace_broker.topic))
            assert tailrace_broker.topic == tailrace_broker.topic != tailrace_broker.create_topic(partitions=2)

        class TestClass:
            def test_one(self, tailrace_broker):
                seen.append((tailrace_broker.bootstrap, tailrace_broker.topic))

        def test_what_they_saw():
            assert len({bootstrap for bootstrap, _ in seen}) == 1
            assert [topic for _, topic in seen] == ["test_one-1-1", "test_one-2-2", "test_one-3"]
        """
    )
    pytester.runpytest_subprocess(*PLUGINS).assert_outcomes(passed=4)


def test_a_secure_broker_gives_each_test_its_users(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from tailrace.testing import BrokerError

        @pytest.mark.parametrize("number", [1, 2])
        def test_users(tailrace_secure_broker, number):
            alice = tailrace_secure_broker.create_user("alice")
            tailrace_secure_broker.allow(alice, "write", topic=tailrace_secure_broker.topic)
            assert alice.name == f"alice-{number}"
            assert tailrace_secure_broker.admin.name == "admin"
            assert alice.bootstrap == tailrace_secure_broker.bootstrap
            with pytest.raises(BrokerError, match="none of"):
                tailrace_secure_broker.allow(alice, "reed", topic="orders")
        """
    )
    pytester.runpytest_subprocess(*PLUGINS).assert_outcomes(passed=2)


def test_workers_have_their_own_brokers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_address(tailrace_broker, number, request):
            path = request.config.rootpath / f"address-{number}"
            path.write_text(tailrace_broker.bootstrap)
        """
    )
    pytester.runpytest_subprocess(*PLUGINS, "-p", "xdist", "-n", "2").assert_outcomes(passed=2)
    one, two = ((pytester.path / f"address-{number}").read_text() for number in (1, 2))
    assert one != two


def test_a_failure_shows_what_the_broker_logged_during_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import socket

        def send_nonsense(broker):
            host, _, port = broker.bootstrap.rpartition(":")
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(b"GET / HTTP/1.1" + bytes(100))
                connection.recv(1)

        def test_first(tailrace_broker):
            tailrace_broker.topic

        def test_fails(tailrace_broker):
            assert not tailrace_broker.log()
            send_nonsense(tailrace_broker)
            assert False

        def test_fails_without_a_broker():
            assert False
        """
    )
    result = pytester.runpytest_subprocess(*PLUGINS)
    result.assert_outcomes(passed=1, failed=2)
    text = result.stdout.str()
    assert text.count("tailrace broker log") == 1
    shown = text.partition("tailrace broker log")[2]
    assert '"level": "warning"' in shown


def test_the_fixture_says_that_the_broker_has_died(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_kills(tailrace_broker):
            tailrace_broker._broker._process.kill()
            tailrace_broker._broker._process.wait()

        def test_next(tailrace_broker):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*PLUGINS)
    result.assert_outcomes(passed=1, errors=1)
    assert "the broker of the tests has ended" in result.stdout.str()


def test_the_plug_in_imports_neither_trio_nor_a_server_before_a_test_asks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_imports():
            assert not [name for name in ("trio", "tailrace.cli", "tailrace.protocol") if name in sys.modules]

        def test_imports_of_the_fixture(tailrace_broker):
            tailrace_broker.topic
            assert not [name for name in ("trio", "tailrace.cli") if name in sys.modules]
        """
    )
    pytester.runpytest_subprocess(*PLUGINS).assert_outcomes(passed=2)

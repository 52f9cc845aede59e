from tailrace.server.health import Readiness


def test_a_line_says_whether_a_server_is_ready_and_why() -> None:
    assert Readiness(True, "SPU 1 serves clients").text == "ready: SPU 1 serves clients"
    assert Readiness(False, "SPU 1 is stopping").text == "not ready: SPU 1 is stopping"

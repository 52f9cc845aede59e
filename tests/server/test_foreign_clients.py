from tailrace.server.foreign_clients import ADDRESSES_MAX, LOG_INTERVAL_SECONDS, ForeignClients


def test_an_address_is_logged_once_in_an_interval_with_the_number_of_its_connections() -> None:
    clients = ForeignClients()
    assert clients.count_to_log("10.0.0.7", 0.0) == 1
    assert [clients.count_to_log("10.0.0.7", LOG_INTERVAL_SECONDS - 1) for _ in range(20)] == [None] * 20
    assert clients.count_to_log("10.0.0.8", LOG_INTERVAL_SECONDS - 1) == 1
    assert clients.count_to_log("10.0.0.7", LOG_INTERVAL_SECONDS) == 21
    assert clients.count_to_log("10.0.0.7", LOG_INTERVAL_SECONDS + 1) is None


def test_the_number_of_remembered_addresses_and_of_lines_is_bounded() -> None:
    clients = ForeignClients()
    counts = [clients.count_to_log(f"address {number}", number / ADDRESSES_MAX) for number in range(2 * ADDRESSES_MAX)]
    assert sum(count is not None for count in counts) == ADDRESSES_MAX
    assert clients.count_to_log("new", LOG_INTERVAL_SECONDS) == 1, "the oldest was forgotten"
    assert clients.count_to_log("newer", LOG_INTERVAL_SECONDS) is None, "the next oldest is still too new"

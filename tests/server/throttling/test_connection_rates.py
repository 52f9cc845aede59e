"""Cases of Kafka's ConnectionQuotasTest; `tests/server/test_public_server.py` has those that need connections."""

import trio
from quota_samples import quota, server_quotas

from tailrace.server.throttling.connection_rates import ConnectionRates

UNBOUNDED = 2**31 - 1


async def test_connections_below_the_rate_are_not_delayed(autojump_clock: trio.testing.MockClock) -> None:
    rates = ConnectionRates(server_quotas())
    for _ in range(100):
        assert rates.delay_ms(10) == 0
        await trio.sleep(0.125)


async def test_connections_above_the_rate_are_delayed_to_it(autojump_clock: trio.testing.MockClock) -> None:
    rates = ConnectionRates(server_quotas())
    began = trio.current_time()
    for _ in range(600):
        await trio.sleep(rates.delay_ms(10) / 1000)
    assert 45 < trio.current_time() - began < 60  # the first window may hold 10 seconds' worth


async def test_a_changed_rate_applies_at_once(autojump_clock: trio.testing.MockClock) -> None:
    rates = ConnectionRates(server_quotas())
    for _ in range(200):
        assert rates.delay_ms(UNBOUNDED) == 0
    assert 0 < rates.delay_ms(10) <= 1000


async def test_connections_of_an_address_above_its_rate_are_refused(autojump_clock: trio.testing.MockClock) -> None:
    rates = ConnectionRates(server_quotas(quota({"connection_creation_rate": 3.0}, ip="10.0.0.1")))
    accepted = [rates.refusal_ms("10.0.0.1") == 0 for _ in range(40)]
    assert accepted.count(True) == 30  # what the window allows
    assert 0 < rates.refusal_ms("10.0.0.1") <= 1000
    assert rates.refusal_ms("10.0.0.2") == 0


async def test_a_refused_connection_counts_nowhere(autojump_clock: trio.testing.MockClock) -> None:
    rates = ConnectionRates(server_quotas(quota({"connection_creation_rate": 1.0}, ip=None)))
    for _ in range(1000):
        assert rates.delay_ms(5) == 0
        rates.refusal_ms("10.0.0.1")
        if rates.refusal_ms("10.0.0.1") == 0:
            rates.delay_ms(5)
    assert rates.refusal_ms("::ffff:10.0.0.1") > 0
    await trio.sleep(5)
    for _ in range(100):
        rates.refusal_ms("10.0.0.1")
    await trio.sleep(6.5)
    assert rates.refusal_ms("10.0.0.1") == 0

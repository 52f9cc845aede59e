"""Tests which address of an SPU a client is told, depending on the listener that the client uses."""

from tailrace.cluster.advertised_addresses import ConnectedListener, address_of
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.ids import SpuId

TWO_LISTENERS = SpuSpec(SpuId(2), None, (Endpoint("PUBLIC", "two", 9), Endpoint("PUBLIC_1", "two", 8)))
ONE_LISTENER = SpuSpec(SpuId(3), None, (Endpoint("PUBLIC", "three", 9),))
NEVER_ONLINE = SpuSpec(SpuId(4))
SECOND = ConnectedListener("PUBLIC_1", ("10.0.0.1", 8))
CHOSEN = ConnectedListener("PUBLIC_1", ("broker.example", 8), is_chosen=True)


def test_an_spu_is_where_its_listener_of_the_same_name_is() -> None:
    assert address_of(TWO_LISTENERS, SECOND, is_this=False) == Endpoint("PUBLIC_1", "two", 8)
    assert address_of(TWO_LISTENERS, CHOSEN, is_this=False) == Endpoint("PUBLIC_1", "two", 8)


def test_an_spu_without_the_listener_is_at_its_first_address() -> None:
    assert address_of(ONE_LISTENER, SECOND, is_this=False) == Endpoint("PUBLIC", "three", 9)


def test_an_spu_without_the_listener_is_nowhere_if_the_user_chose_addresses_for_its_clients() -> None:
    assert address_of(ONE_LISTENER, CHOSEN, is_this=False) is None


def test_an_spu_that_was_never_online_is_nowhere() -> None:
    assert address_of(NEVER_ONLINE, SECOND, is_this=False) is None


def test_this_spu_is_where_the_client_has_reached_it_unless_an_administrator_set_an_address() -> None:
    assert address_of(NEVER_ONLINE, SECOND, is_this=True) == Endpoint("PUBLIC_1", "10.0.0.1", 8)
    assert address_of(ONE_LISTENER, SECOND, is_this=True) == Endpoint("PUBLIC_1", "10.0.0.1", 8)
    assert address_of(TWO_LISTENERS, SECOND, is_this=True) == Endpoint("PUBLIC_1", "two", 8)

"""Tests which address of an SPU a client is told, depending on how the client has connected."""

from msgspec.structs import replace

from tailrace.cluster.advertised_addresses import PUBLISHED, ConnectedListener, address_of
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.ids import SpuId

TWO_LISTENERS = SpuSpec(SpuId(2), None, (Endpoint("PUBLIC", "two", 9), Endpoint("PUBLIC_1", "two", 8)))
ONE_LISTENER = SpuSpec(SpuId(3), None, (Endpoint("PUBLIC", "three", 9),))
NEVER_ONLINE = SpuSpec(SpuId(4))
SECOND = ConnectedListener("PUBLIC_1", ("10.0.0.1", 8))
CHOSEN = ConnectedListener("PUBLIC_1", ("broker.example", 8), is_chosen=True)
FIRST = ConnectedListener("PUBLIC", ("10.0.0.1", 9092))
FROM_OUTSIDE = replace(FIRST, is_from_outside=True)
EVERYWHERE = Endpoint("PUBLIC", "127.0.0.1", 9093, on_all_addresses=True)
NEIGHBOUR = SpuSpec(SpuId(5), None, (EVERYWHERE, Endpoint(PUBLISHED, "host.example", 19093)))
HERE = frozenset({"127.0.0.1"})


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
    assert address_of(NEVER_ONLINE, CHOSEN, is_this=True) == Endpoint("PUBLIC_1", "broker.example", 8)


def test_an_spu_on_the_same_machine_is_at_the_address_that_the_client_has_reached() -> None:
    found = address_of(NEIGHBOUR, FIRST, is_this=False, machine_hosts=HERE)
    assert found is not None
    assert (found.host, found.port) == ("10.0.0.1", 9093)


def test_an_spu_on_another_machine_is_where_it_says() -> None:
    assert address_of(NEIGHBOUR, FIRST, is_this=False, machine_hosts=frozenset({"10.0.0.1"})) == EVERYWHERE


def test_an_spu_that_listens_on_one_address_of_the_machine_is_there() -> None:
    single = replace(NEIGHBOUR, endpoints=(replace(EVERYWHERE, on_all_addresses=False),))
    found = address_of(single, FIRST, is_this=False, machine_hosts=HERE)
    assert found is not None and found.host == "127.0.0.1"


def test_an_address_that_the_user_chose_stays_as_it_is() -> None:
    chosen = ConnectedListener("PUBLIC", ("broker.example", 9), is_chosen=True, is_from_outside=True)
    assert address_of(NEIGHBOUR, chosen, is_this=False, machine_hosts=HERE) == EVERYWHERE


def test_a_client_from_outside_is_told_the_published_address_of_every_spu_that_has_one() -> None:
    published = Endpoint(PUBLISHED, "host.example", 19093)
    assert address_of(NEIGHBOUR, FROM_OUTSIDE, is_this=False, machine_hosts=HERE) == published
    assert address_of(replace(NEIGHBOUR, endpoints=(published,)), FROM_OUTSIDE, is_this=True) == published
    assert address_of(ONE_LISTENER, FROM_OUTSIDE, is_this=False) == Endpoint("PUBLIC", "three", 9)
    assert address_of(NEVER_ONLINE, FROM_OUTSIDE, is_this=True) == Endpoint("PUBLIC", "10.0.0.1", 9092)


def test_no_other_client_is_told_the_published_address() -> None:
    only_published = replace(NEIGHBOUR, endpoints=(Endpoint(PUBLISHED, "host.example", 19093),))
    assert address_of(only_published, FIRST, is_this=False) is None
    assert address_of(only_published, FIRST, is_this=True) == Endpoint("PUBLIC", "10.0.0.1", 9092)

from tailrace.broker.handlers.records.fetch_room import FETCH_PLACES, MODEST_SHARE, PLACE_BYTES, FetchRoom

PLACES = 100 * MODEST_SHARE


def _room() -> FetchRoom:
    return FetchRoom(PLACES * PLACE_BYTES)


def test_a_client_may_take_half_of_the_room() -> None:
    room = _room()
    large = PLACES // 2 - FETCH_PLACES
    assert room.take(1, large + 1) == 0
    assert room.take(1, large) == PLACES // 2
    assert room.take(2, 1000) == 0
    room.give_back(1, PLACES // 2)
    assert room.take(2, 1000) == 1000 + FETCH_PLACES


def test_modest_clients_wait_while_others_ask_for_too_much() -> None:
    room = _room()
    room.take(1, PLACES // 2 - FETCH_PLACES)
    assert room.take(2, 96) == 100
    assert room.take(2, 1) == 0, "this client is not modest any more"
    assert room.take(1, 1) == 0


def test_the_room_has_an_end_for_modest_clients_too() -> None:
    room = _room()
    waiting = [client for client in range(2 * MODEST_SHARE) if room.take(client, 96)]
    assert len(waiting) == MODEST_SHARE
    assert room.taken == PLACES


def test_places_are_given_back() -> None:
    room = _room()
    for _ in range(3):
        first, second = room.take(1, 10), room.take(1, 20)
        room.give_back(1, first)
        room.give_back(1, second)
    assert room.taken == 0

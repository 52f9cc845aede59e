"""Tests when places are looked up."""

from collections.abc import Mapping, Sequence

from tailrace.client.server_connection import RefusedError
from tailrace.client.transactions.known_places import KnownPlaces


async def test_a_place_is_looked_up_once_until_it_is_forgotten() -> None:
    asked: list[Sequence[str]] = []

    async def look_up(keys: Sequence[str]) -> Mapping[str, int | RefusedError]:
        asked.append(keys)
        return dict.fromkeys(keys, len(asked))

    places = KnownPlaces(look_up)
    assert await places.place(["a", "b"]) == {"a": 1, "b": 1}
    assert await places.place(["b", "c"]) == {"b": 1, "c": 2}
    places.forget(["b", "unknown"])
    assert await places.place(["a", "b"]) == {"a": 1, "b": 3}
    assert asked == [["a", "b"], ["c"], ["b"]]


async def test_a_key_without_a_place_is_looked_up_again() -> None:
    refused = RefusedError("no leader")
    answers: list[int | RefusedError] = [refused, 4]

    async def look_up(keys: Sequence[str]) -> Mapping[str, int | RefusedError]:
        return dict.fromkeys(keys, answers.pop(0))

    places = KnownPlaces(look_up)
    assert await places.place(["a"]) == {"a": refused}
    assert await places.place(["a"]) == {"a": 4}

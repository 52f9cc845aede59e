from tailrace.runtime.chance import RandomChance


def test_a_seed_repeats_every_draw() -> None:
    def draws(chance: RandomChance) -> list[object]:
        return [chance.uuid(), chance.below(1000), chance.choice("abcdefgh"), chance.fraction(), chance.secret(8)]

    assert draws(RandomChance(7)) == draws(RandomChance(7))
    assert draws(RandomChance(7)) != draws(RandomChance(8))


def test_without_a_seed_no_two_are_alike() -> None:
    assert RandomChance().uuid() != RandomChance().uuid()
    assert RandomChance().secret(16) != RandomChance().secret(16)


def test_draws_stay_in_their_range() -> None:
    chance = RandomChance(1)
    assert {chance.below(3) for _ in range(100)} == {0, 1, 2}
    assert {chance.choice("ab") for _ in range(100)} == {"a", "b"}
    assert all(0 <= chance.fraction() < 1 for _ in range(100))
    assert chance.uuid().version == 4

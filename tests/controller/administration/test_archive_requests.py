import pytest
import trio
from running_workflow import running_workflow

from tailrace.controller.administration import archive_requests
from tailrace.controller.administration.archive_requests import HEAD_CHARACTERS_MAX
from tailrace.protocol.error_codes import ErrorCode, KafkaError

ONE, TWO = "2c0f5d31-90f6-4f5a-8a0b-9d1f53d2c8aa", "7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b"


async def test_of_two_writers_of_a_head_exactly_one_succeeds() -> None:
    async with running_workflow() as running:
        requests = running.host.archive_requests()
        assert requests.read(ONE) is None
        outcomes: list[int | KafkaError] = []

        async def write(text: str) -> None:
            try:
                outcomes.append(await requests.write(ONE, 0, text))
            except KafkaError as error:
                outcomes.append(error)

        async with trio.open_nursery() as nursery:
            for text in ("first", "second"):
                nursery.start_soon(write, text)
        (version,) = [each for each in outcomes if isinstance(each, int)]
        (refused,) = [each for each in outcomes if isinstance(each, KafkaError)]
        assert refused.code == ErrorCode.INVALID_UPDATE_VERSION
        found = requests.read(ONE)
        assert found is not None and found.version == version
        assert await requests.write(ONE, version, "third") > version


async def test_heads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_requests, "ARCHIVES_MAX", 1)
    async with running_workflow() as running:
        requests = running.host.archive_requests()
        for archive, text, message in (
            ("orders", "{}", "'orders' is not the id of an archive"),
            (ONE, "x" * (HEAD_CHARACTERS_MAX + 1), "has 524289 characters, more than 524288"),
        ):
            with pytest.raises(KafkaError, match=message):
                await requests.write(archive, 0, text)
        version = await requests.write(ONE, 0, "{}")
        with pytest.raises(KafkaError, match="takes no more: begin this archive without --sc"):
            await requests.write(TWO, 0, "{}")
        await requests.write(ONE, version, "{ }")

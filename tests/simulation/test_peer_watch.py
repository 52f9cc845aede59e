"""The watch detects messages in an epoch without a durable promise, however their bytes are split."""

from random import Random
from uuid import UUID

from simulation.faulty_network import Internet, SimulatedConnection
from simulation.peer_watch import PeerWatch
from simulation.world import DATA_DIRECTORY, Machine

from tailrace.broker.peers.peer_codec import encode
from tailrace.broker.replication.messages import AppendReply, Hello
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.network import Address
from tailrace.storage.directory.promises import Promises

KEY = UUID(int=7), 0


async def test_a_promise_that_is_not_synced_is_none(virtual_clock: object) -> None:
    machine = Machine("spu-1", Random(0), 0.0)
    machine.files.make_directories(DATA_DIRECTORY)
    await machine.files.sync_directory("")
    await machine.files.sync_directory("/data")
    broken: list[str] = []
    watch = PeerWatch({"spu-1": machine}, broken.append)
    listener = await Internet(Random(0)).process_on("spu-2").listen(Address("spu-2", 9006))
    connection: SimulatedConnection = await listener._network.internet.process_on("spu-1").connect(listener.address)

    def say(epoch: int, cut: int) -> None:
        for message in (
            Hello(Epoch(epoch + 1), SpuId(1), "a"),
            AppendReply(Epoch(epoch), SpuId(1), "a", 0, 0, 0, False),
        ):
            data = b"".join(map(bytes, encode(KEY, message)))
            watch.on_sent(connection, data[:cut])
            watch.on_sent(connection, data[cut:])

    promises = Promises(machine.files, DATA_DIRECTORY)
    await promises.promise(KEY, Epoch(3))
    await machine.files.sync_directory(DATA_DIRECTORY)
    for cut in range(1, 20):
        say(3, cut)
    assert not broken
    assert watch.messages == 19
    say(4, 10)
    (sentence,) = broken
    assert sentence == "spu-1 sent APPEND_REPLY of epoch 4, but has promised 3 on its disk"

from tailrace.cli.pictures.cluster_picture import cluster_picture
from tailrace.controller.objects.objects import PublicListener, Spu, SpuResolution, SpuSpec, SpuStatus
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.describe_spu import DescribeSpuResponse, FollowerOfLeader

ONE, TWO, THREE = (SpuId(number) for number in (1, 2, 3))
LISTENERS = (PublicListener("PUBLIC", "one.example", 9005), PublicListener("OTHER", "127.0.0.1", 9092))
COUNTS = {"spu": 3, "partition": 8}


def test_the_streams_the_clients_and_who_copies_from_whom() -> None:
    spus = [
        Spu(SpuSpec(ONE), SpuStatus(SpuResolution.ONLINE, listeners=LISTENERS)),
        Spu(SpuSpec(TWO), SpuStatus(SpuResolution.ONLINE, reason="its storage is full")),
        Spu(SpuSpec(THREE), SpuStatus(SpuResolution.OFFLINE, listeners=LISTENERS, reason="its lease has expired")),
    ]
    controllers = {
        ONE: DescribeSpuResponse("data", 5, [FollowerOfLeader(2, 3, is_linked=True)]),
        TWO: DescribeSpuResponse("data", 3, [FollowerOfLeader(1, 4, is_linked=True), FollowerOfLeader(3, 1)]),
        THREE: "it is not online",
    }
    assert cluster_picture(COUNTS, spus, {ONE, TWO}, controllers).splitlines() == [
        "SC (spu: 3, partition: 8)",
        "   |",
        "   +---- SPU 1, Online: leads 5, follows 3",
        "   |       <---- clients at one.example:9005",
        "   |       <---- clients at 127.0.0.1:9092",
        "   |",
        "   +---- SPU 2, Online (its storage is full): leads 3, follows 5",
        "   |",
        "   + -   SPU 3, Offline (its lease has expired)",
        "",
        "replicas that each SPU copies from others (! means that they are not linked):",
        "",
        "       FROM SPU 1  FROM SPU 2  FROM SPU 3",
        "SPU 1           -           3  -",
        "SPU 2           4           -  1 !",
    ]


def test_an_spu_that_is_alone_copies_from_nobody() -> None:
    spus = [Spu(SpuSpec(ONE), SpuStatus(SpuResolution.ONLINE))]
    picture = cluster_picture({}, spus, set(), {ONE: DescribeSpuResponse("data", 5)})
    assert picture.splitlines() == ["SC ()", "   |", "   + -   SPU 1, Online: leads 5, follows 0"]

"""Examples for the help of each command, as a person types them in a shell. A test parses each of them."""

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "up": (
        "tailrace up",
        "tailrace up --data ./data --public 127.0.0.1:9092",
        "tailrace up --ephemeral --topic orders:6 --topic payments",
        "tailrace up --spus 3 --set num.partitions=6",
    ),
    "status": ("tailrace status", "tailrace status --watch 5"),
    "doctor": ("tailrace doctor", "tailrace doctor --output json"),
    "serve sc": (
        "tailrace serve sc --data ./sc",
        "tailrace serve sc --store etcd://one:2379,two:2379,three:2379 --replace-after 600",
    ),
    "serve spu": ("tailrace serve spu --id 1 --data ./spu-1 --sc sc.example:9004",),
    "spu register": (
        "tailrace spu register --id 11 --public one.example:9005 --private one.example:9006 --rack zone-1",
        "tailrace spu register --file spu.yaml",
    ),
    "spu list": ("tailrace spu list", "tailrace spu list --watch"),
    "spu describe": ("tailrace spu describe 1 2",),
    "spu unregister": ("tailrace spu unregister 11",),
    "spu-group create": ("tailrace spu-group create more --replicas 2 --min-id 11 --wait 30",),
    "spu-group list": ("tailrace spu-group list",),
    "spu-group describe": ("tailrace spu-group describe main",),
    "spu-group scale": ("tailrace spu-group scale main 3",),
    "spu-group delete": ("tailrace spu-group delete more",),
    "topic create": (
        "tailrace topic create orders",
        "tailrace topic create orders --partitions 6 --replication-factor 3 --config retention.ms=86400000",
        "tailrace topic create --file topics.yaml",
    ),
    "topic list": ("tailrace topic list", "tailrace topic list --deleted", "tailrace topic list --internal"),
    "topic describe": ("tailrace topic describe orders",),
    "topic delete": ("tailrace topic delete orders",),
    "topic undelete": ("tailrace topic undelete orders",),
    "topic alter": (
        "tailrace topic alter orders --partitions 12",
        "tailrace topic alter --all --replication-factor 3",
        "tailrace topic alter orders --config retention.ms=3600000 --delete-config cleanup.policy",
    ),
    "topic offsets": ("tailrace topic offsets orders --time 2026-01-31T12:00:00Z",),
    "topic truncate": (
        "tailrace topic truncate orders --before 7d",
        "tailrace topic truncate orders/0 --before 4711 --execute",
    ),
    "config list": ("tailrace config list topic",),
    "config describe": (
        "tailrace config describe topic orders",
        "tailrace config describe topic orders retention.ms",
        "tailrace config describe broker 1 --all",
    ),
    "config set": (
        "tailrace config set topic orders retention.ms=86400000",
        "tailrace config set broker all log.retention.ms=86400000 --dry-run",
    ),
    "config reset": ("tailrace config reset topic orders retention.ms",),
    "partition list": ("tailrace partition list orders", "tailrace partition list --lagging --watch 5"),
    "partition describe": ("tailrace partition describe orders/0",),
    "partition move": (
        "tailrace partition move orders/0 --to 2,3,1",
        "tailrace partition move --cancel",
    ),
    "partition moves": ("tailrace partition moves --watch",),
    "partition elect": ("tailrace partition elect", "tailrace partition elect orders payments/3"),
    "partition states": ("tailrace partition states",),
    "replica list": ("tailrace replica list --spu 1",),
    "segment list": ("tailrace segment list orders/0",),
    "produce": (
        'echo "customer-7:order 1" | tailrace produce orders --key-separator :',
        "tailrace produce orders/2 --compression zstd <lines.txt",
    ),
    "consume": (
        "tailrace consume orders --follow",
        "tailrace consume orders --from beginning --count 10 --output json",
        "tailrace consume orders --values >values.txt",
    ),
    "group list": ("tailrace group list", "tailrace group list --state Empty"),
    "group describe": ("tailrace group describe billing --members", "tailrace group describe billing --watch 5"),
    "group explain": ("tailrace group explain billing",),
    "group reset-offsets": (
        "tailrace group reset-offsets billing --topic orders --to-earliest",
        "tailrace group reset-offsets billing --all-topics --by-duration 1h30m --execute",
    ),
    "group delete": ("tailrace group delete billing", "tailrace group delete billing --topic orders"),
    "controller list": ("tailrace controller list",),
    "connection list": ("tailrace connection list --watch",),
    "draw cluster": ("tailrace draw cluster", "tailrace draw cluster --watch"),
    "draw partition": ("tailrace draw partition orders/0",),
    "apply": ("tailrace apply --file cluster.yaml", "tailrace topic list --output yaml | tailrace apply --file -"),
    "log dump": ("tailrace log dump ./data/spu-1/orders-0/00000000000000000000.log --records",),
    "log verify": ("tailrace log verify ./data --progress",),
    "config check": ("tailrace config check", "tailrace config check tailrace.toml --server spu"),
    "completion": (
        "tailrace completion bash >~/.local/share/bash-completion/completions/tailrace",
        'eval "$(tailrace completion zsh)"',
        "tailrace completion fish >~/.config/fish/completions/tailrace.fish",
    ),
}
"""The examples of each command, the simplest first."""

"""The `tailrace` command: parses arguments and hands over to one module per subcommand."""


def main() -> int:
    return 0

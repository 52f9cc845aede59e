"""The `tailrace` command. `main.py` finds the subcommand; each sub-package holds one family of commands."""

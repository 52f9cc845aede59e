"""`python -m tailrace` is the `tailrace` command."""

from tailrace.cli.main import main

raise SystemExit(main())

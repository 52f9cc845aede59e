"""The log that the broker uses: append, read, sync, truncate, retain, open. May import every room below it."""

"""One module per API between our own programs, generated: see `tailrace.protocol.generate`."""

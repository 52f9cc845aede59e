"""One module per record that a group coordinator stores, generated: see `tailrace.protocol.generate`."""

"""The record that a transaction coordinator stores, generated: see `tailrace.protocol.generate`."""

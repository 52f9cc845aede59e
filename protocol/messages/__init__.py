"""One module per Kafka API, generated: see `tailrace.protocol.generate`."""

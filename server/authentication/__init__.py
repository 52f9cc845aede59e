"""Authentication of clients with SASL: connects the pure exchanges to connections, users and keys."""

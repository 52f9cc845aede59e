"""Handlers that describe an SPU's storage, or read it for other SPUs and tools."""

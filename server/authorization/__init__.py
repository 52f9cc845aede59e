"""Checks what clients may do: one table says which operation on which resource each API needs, and guards check it.

A guard stands around a handler. It removes what is denied from the request, calls the handler, and adds Kafka's error
codes to the response. Handlers know nothing of it. Without an authorizer there are no guards.
"""

"""Handlers of the APIs about users, access rules, quotas and delegation tokens, one module for each API."""

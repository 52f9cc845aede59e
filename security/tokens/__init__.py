"""Delegation tokens: who may create, renew and expire them, and until when they are valid."""

"""Formats text for a terminal: tables, times, progress. Asks no server and imports no other room."""

"""Schemas of values: they turn the bytes of values into columns, in processes without Trio. May import `segments`."""

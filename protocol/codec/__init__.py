"""Encodes and decodes messages: schemas, compiled codecs, headers and frames. Pure."""

"""Encodes and decodes messages: schemas, compiled codecs, headers, frames. Pure."""

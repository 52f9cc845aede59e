"""The Streaming Processing Unit (SPU). `spu.py` wires its parts; each sub-package is one part. The sub-packages form
layers, which an import contract checks.
"""

"""Memlane: an open memory backend for agent applications."""

__version__ = "0.1.0"

"""Structured logs, metrics, and supervised background tasks."""

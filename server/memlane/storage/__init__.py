"""Postgres: the store, its named statements and its migrations. Implements `usecases.ports`."""

"""What `memlane dev` brings along, so that a laptop needs nothing else: Postgres, and a key and license."""

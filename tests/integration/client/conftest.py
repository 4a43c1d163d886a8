"""The same served deployment as MCP's tests."""

from integration.mcp.conftest import house, lone_postgres
from integration.rest.conftest import shop

__all__ = ["house", "lone_postgres", "shop"]

"""The official MCP client on a served deployment."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

MODES = ("auto", "legacy")
"""The protocol of 2026, and the one with a handshake, which the published middleware speaks."""


@asynccontextmanager
async def mcp_client(url: str, headers: Mapping[str, Any], mode: Any = "auto") -> AsyncIterator[Client]:
    """A connected client that sends these headers with every request."""
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=20) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode, cache=None) as client,
    ):
        yield client


async def names(client: Client) -> list[str]:
    """The listed tools."""
    return [tool.name for tool in (await client.list_tools()).tools]


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool, expect success, and give its structured answer."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool, expect a tool error, and give the contract's code."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert result.meta is not None
    code: str = result.meta["memlane/error"]["code"]
    assert text_of(result).startswith(f"ERROR {code}: "), "the text alone says so too"
    return code


def text_of(result: CallToolResult) -> str:
    """All that the published middleware reads of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")

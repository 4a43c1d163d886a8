"""`memlane mcp`: the tools over stdio, each request handed to `/mcp` of a running service.

Holds nothing: the service decides on every request, and one that was restarted meanwhile is simply asked anew.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp_types.version import LATEST_MODERN_VERSION

from memlane import __version__
from memlane.mcp_tools.endpoint import PATH
from memlane.mcp_tools.server import INSTRUCTIONS

REQUEST_SECONDS = 15.0
"""Longest wait for the service's answer, which takes 5 s at most."""
_UNREACHABLE = "ERROR API_UNREACHABLE: the Memlane service at {url} does not answer. Nothing was done; try again."


class Bridge:
    """Hands requests on.

    Args:
        url: The service's base URL.
        headers: The credentials of every request.
    """

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._url = url.rstrip("/")
        self._headers = headers

    async def list_tools(self, _ctx: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        """The service's list for these credentials.

        Raises:
            MCPError: The service refuses, or does not answer.
        """
        try:
            async with self._connected() as client:
                return await client.list_tools()
        except* MCPError as refused:
            raise _first(refused) from None
        except* httpx2.HTTPError:
            raise MCPError(INTERNAL_ERROR, _UNREACHABLE.format(url=self._url)) from None

    async def call_tool(self, _ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        """The service's answer to a call; a service that does not answer is a tool error too.

        Raises:
            MCPError: The service refuses the request itself.
        """
        result: CallToolResult
        try:
            async with self._connected() as client:
                # Not `client.call_tool`: that lists the tools again, to check what our own service answers.
                result = await client.session.send_request(CallToolRequest(params=params), CallToolResult)
        except* MCPError as refused:
            raise _first(refused) from None
        except* httpx2.HTTPError:
            text = _UNREACHABLE.format(url=self._url)
            result = CallToolResult(content=[TextContent(text=text)], is_error=True)
        return result

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        # One HTTP request a call: the newest protocol has no handshake.
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=REQUEST_SECONDS) as http,
            Client(
                streamable_http_client(f"{self._url}{PATH}", http_client=http), mode=LATEST_MODERN_VERSION, cache=None
            ) as client,
        ):
            yield client


async def serve_stdio(bridge: Bridge) -> None:
    """Serve until standard input ends."""
    server: Server[Any] = Server(
        "memlane",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=bridge.list_tools,
        on_call_tool=bridge.call_tool,
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _first(group: BaseExceptionGroup[MCPError]) -> MCPError:
    fault = group.exceptions[0]
    return _first(fault) if isinstance(fault, BaseExceptionGroup) else fault

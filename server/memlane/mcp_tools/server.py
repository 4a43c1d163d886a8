"""The MCP server object: who may see which tool, what a call comes to, and how a refusal is told."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.requests import Request

from memlane import __version__
from memlane.domain.caller import Caller
from memlane.domain.errors import Denied, MemlaneError, StorageUnavailable
from memlane.mcp_tools.texts import failed_text
from memlane.mcp_tools.tools import TOOLS, TOOLS_BY_NAME, MemoryTool
from memlane.observability import metrics
from memlane.observability.logs import log
from memlane.rest.bodies import error_body
from memlane.rest.credentials import caller_of, provenance_of_meta
from memlane.usecases.access import require_some
from memlane.usecases.authenticate import Gate
from memlane.usecases.ports import Services

CALL_SECONDS = 4.5
"""Longest work on one call: it ends as a tool error before the door's own 4.8 s cut the request."""
ERROR_META = "memlane/error"
"""Where `_meta` of a failed call holds the contract's error object."""

INSTRUCTIONS = (
    "Memlane remembers durable statements about the user and the project across conversations. Recall before you "
    "answer and before you save; save what will still matter later; never save secrets."
)


class MemoryServer:
    """The handlers of MCP requests. Stateless: all that a request needs is in its HTTP request."""

    def __init__(self, services: Services, gate: Gate) -> None:
        self._services = services
        self._gate = gate

    def build(self) -> Server[Any]:
        """The SDK's server with these handlers."""
        return Server(
            "memlane",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            # Told once for all: the SDK compares headers with it before any credential is known.
            get_tool_input_schema=lambda name: (
                TOOLS_BY_NAME[name].listed(("user", "project")).input_schema if name in TOOLS_BY_NAME else None
            ),
        )

    async def list_tools(self, ctx: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        """The tools that this caller may use now; none for whom entitlement, lane or grant refuses.

        Raises:
            MCPError: Who calls cannot be told: the message bears the contract's code.
        """
        try:
            caller = await caller_of(ctx.request, self._gate, user_optional=True)
        except Denied as fault:
            metrics.DENIALS.labels(fault.code).inc()
            return ListToolsResult(tools=[])
        except MemlaneError as fault:
            metrics.DENIALS.labels(fault.code).inc()
            raise protocol_error(fault, ctx.request) from None
        return ListToolsResult(tools=[tool for tool in (_listed(one, caller) for one in TOOLS) if tool is not None])

    async def call_tool(self, ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        """Run one tool. Whatever is refused or fails is the call's result, never the session's end.

        Raises:
            MCPError: There is no such tool.
        """
        tool = TOOLS_BY_NAME.get(params.name)
        if tool is None:
            known = ", ".join(TOOLS_BY_NAME)
            raise MCPError(INVALID_PARAMS, f"There is no such tool; there are {known}.")
        request: Request = ctx.request
        outcome = "ok"
        try:
            async with asyncio.timeout(CALL_SECONDS):
                caller = await caller_of(request, self._gate, user_optional=True, writes=int(tool.needs_write))
                caller = replace(caller, provenance=provenance_of_meta(params.meta or {}, caller.provenance))
                answer = await tool.run(self._services, caller, params.arguments)
            return CallToolResult(content=[TextContent(text=answer.text)], structured_content=answer.body)
        except TimeoutError:
            fault: MemlaneError = StorageUnavailable("The request took too long; try again.")
            outcome = fault.code
        except MemlaneError as refused:
            fault, outcome = refused, refused.code
        except Exception as unforeseen:  # noqa: BLE001 - the last line of defence: an answer without a trace of the inside
            log.error("internal_error", tool=tool.name, kind=type(unforeseen).__name__)
            fault = MemlaneError("Something went wrong on our side.")
            outcome = fault.code
        finally:
            metrics.MCP_CALLS.labels(tool.name, outcome).inc()
        metrics.DENIALS.labels(fault.code).inc()
        return _failed(fault, request.state.request_id)


def _listed(tool: MemoryTool, caller: Caller) -> Tool | None:
    try:
        scopes: Sequence[Any] = require_some(caller, needs_write=tool.needs_write)
    except Denied:
        return None
    return tool.listed(scopes)


def _failed(fault: MemlaneError, request_id: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=failed_text(fault, request_id))],
        is_error=True,
        _meta={ERROR_META: error_body(fault, request_id)["error"]},
    )


def protocol_error(fault: MemlaneError, request: Request) -> MCPError:
    """A refusal as the protocol's own error: its message begins with the contract's code."""
    error = error_body(fault, request.state.request_id)["error"]
    return MCPError(INVALID_REQUEST, f"{fault.code}: {fault.message}", error)

"""Memory as MCP tools: over HTTP at `/mcp`, and over stdio as `memlane mcp`.

A door like REST, on the same credentials, request models and use cases. It is stateless: each request stands alone
and any process can serve it, so key, entitlement, grant and lane are decided anew on every one, listing included.
The published middleware lists tools once a run, reads nothing but text content, and does not look at `isError`: the
text alone therefore carries everything, ids included, and says by itself that a call failed, and with which code.
"""

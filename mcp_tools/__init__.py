"""MCP server for any client: token-budgeted views, groups and ticks over the engine.

Built on the low-level `Server` of the `mcp` SDK. This package owns the tools, resources and prompts that clients see.
It never implements what they do: a call that opens or changes a handle runs one statement on the session's timeline,
and every other call reads the session without side effects.
"""

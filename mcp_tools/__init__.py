"""MCP for any client, on the `mcp` SDK's low-level `Server`: budgeted views, groups and ticks over the engine.

Owns the tools, resources and prompts that clients see, and nothing of what they do: each call that opens or changes a
handle is one statement of the session's timeline, each other one a look without effect.
"""

"""A session as a page: one file that works offline, or served on loopback, live, where it can also act.

It stands above the engine, like `acp_adapter` and `mcp_tools`, and no other program loads it. The page itself is the
bundle of a front end; this package gives it data and carries out its requests by the engine's public API.
"""

"""The suites: `registry` lists them, a folder or module holds each, and `jsonrpc` holds the rules that all share.

In a folder, a module covers one area: its scenarios, its judges, and its requirements with their quotes. `suite`
lists the areas. Nothing outside this package knows a protocol.
"""

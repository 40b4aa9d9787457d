"""JSON-RPC 2.0 over newline-delimited JSON, between one agent and one client.

`stdio` moves bytes, `lines` turns bytes into JSON and back, `messages` classifies messages, `dispatch` runs handlers
through jsonrpcserver, and `peer` ties these together. Knows no method of the protocol. This file imports nothing,
because `stdio.divert` must run before anything else is loaded.
"""

"""JSON-RPC 2.0 over newline-delimited JSON, between one agent and one client.

`transport` is what moves bytes, and `stdio` does so over the process's streams; `framing` cuts lines, `jsonline` reads
and writes one, `messages` tells kinds of messages apart, `dispatch` runs handlers through jsonrpcserver, `peer` puts it
together. Knows no method of the protocol. This file imports nothing, because `stdio.divert` has to run before anything
else is loaded.
"""

"""ACP version 1, stable: its codec, in modules that are loaded when they are first used.

`codec` is the way in. `handshake`, `sessions`, `prompts`, `options` read params and write results, `permissions` asks,
`updates` tells. `shapes` are the messages as the schema defines them; nobody outside of this package knows them.
"""

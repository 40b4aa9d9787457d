"""The messages of ACP version 1: one module for each group. Import what is needed from the module that owns it.

`content` blocks, `tools` (tool calls), `initialize`, `sessions` (what an editor asks about sessions), `prompts`,
`options` (modes and configuration), `updates` (session/update), `client` (what the agent asks of the editor).
"""

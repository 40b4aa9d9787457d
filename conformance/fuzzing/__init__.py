"""Fuzzing: random messages from a protocol's schema, checks that need no specification, and a minimal replay.

`values` makes JSON values, `targets` describes each protocol, and `campaign` sends steps and shortens findings.
"""

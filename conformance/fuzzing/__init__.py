"""Fuzzing: random messages of a protocol's schema, an oracle that needs no specification, and the shortest replay.

`values` and `instances` make JSON, `targets` says what each protocol is sent, `play` sends steps to a program and looks
at what came of it, `campaign` goes on until something is found, and makes that short.
"""

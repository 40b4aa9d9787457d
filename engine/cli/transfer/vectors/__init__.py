"""This engine as an adapter of `rewindow-conformance vectors`: what our View and cycles make of neutral events.

The forms and the messages are described in docs/conformance-formats.md. Called by the command line, and by the tests
that play the vectors without a process.
"""

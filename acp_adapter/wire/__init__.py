"""The shapes of the Agent Client Protocol as small models of our own, one package for each protocol version.

The official bindings take half a second to import; these build a model when it is first used. That they agree with
the official schema is shown by tests, which check every message that leaves the program.
"""

"""One conversation: the host, the queue, the turn and its agent loop, tool calls, permissions, going back, commands.

The asynchronous room. Adapters and the command line use it through the face of `engine`.
"""

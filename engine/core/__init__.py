"""Values without dependencies: ids, errors, text, diffs, tokens, the table of tools, settings.

Every other room may import this one; it imports none of them.
"""

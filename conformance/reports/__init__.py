"""Reports of a run. `terminal` renders for people in a terminal, `files` lists the kinds of report files.

They know results and no protocol. Called by the commands.
"""

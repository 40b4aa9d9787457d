"""Programs that measure one subject each, in whatever interpreter has it: run as scripts, never imported.

Each reads lines of JSON, `[action, *arguments]`, and answers each with the seconds that it took.
"""

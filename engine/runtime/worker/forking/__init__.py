"""The zygote and what it forks: workers, checkpoints of them, parsers."""

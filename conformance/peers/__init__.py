"""What a scenario talks to: a program in memory with a virtual clock, or a process. Both are a `Peer`."""

"""The programs that scenarios talk to: processes, or programs in memory with a virtual clock. Each is a `Peer`."""

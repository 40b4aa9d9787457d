"""What the program needs of an operating system, with one implementation for Linux and one for macOS.

| module | need |
| --- | --- |
| `waiting` | wait for many descriptors |
| `processes` | hold on to a process, so that a signal never reaches another |
| `process_table` | facts about processes |
| `brands` | recognize processes of a host |
| `own_process` | what a process sets about itself: parents, signals, priority |
| `descriptors` | numbers of descriptors, files in memory, senders of records |
| `passing` | sockets that pass descriptors |
| `names` | names in directories |
| `attributes` | extended attributes of files |
| `quiet_fork` | forks that statements do not notice |
| `kernel` | system calls that only Linux has |
| `support` | which systems are known, and what one lacks |
| `peers` | who is at the other end of a connection |
| `desktop` | the program that shows an address in a browser |

It stands in this layer and not in `core`, because `core` performs no input or output. Standard library alone, because
the host and its zygote load it first.
"""

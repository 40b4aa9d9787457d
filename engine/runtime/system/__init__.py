"""What the program needs of an operating system, with one implementation for Linux and one for other systems.

Each module is one need: `waiting` for many descriptors, `processes` to hold on to one process, `process_table` for
facts about all, `brands` to recognize them, `own_process` and `descriptors` for the process itself, and `quiet_fork`
for forks that its statements do not notice. It stands in this layer and not in `core`, because `core` performs no input
or output. Standard library alone, because the host and its zygote load it first.
"""

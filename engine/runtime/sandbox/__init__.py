"""The sandbox: how the kernel is made to hold a process, and all that it starts, to a `Domain`.

`entering` is what a forked worker and the keeper of a program call. It goes through the layers in the order that the
kernel asks for: `mounts` first, because a process in a Landlock domain may not mount; then `capabilities`, which ends
what only root could do; then `landlock`; and `seccomp` last, which refuses calls that the others need to enter. Each
layer is a module, which knows no other and can be missing. `kernel` has the calls themselves. Standard library alone.
"""

"""The sandbox: makes the kernel confine a process, and all that it starts, to a `Domain`.

Forked workers and keepers of programs call `entering`. It enters the layers in the order that the kernel requires:
`mounts` first, because a process in a Landlock domain may not mount; then it drops the capabilities of root; then
`landlock`; and `seccomp` last, because it refuses calls that the others need. Each layer is a module without knowledge
of the others, and may be missing. macOS has one other layer, `seatbelt`, which a program is started in (`starter`).
"""

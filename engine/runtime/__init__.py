"""The live Python namespace of a session: its host side, the worker process, the sandbox, and rebuilding names.

`environment` is the Protocol that sessions use, and `factory` makes the one that hosts use. `connected_environment` and
`statement_run` serve both environments, over a `connection` to a worker (`worker_connection`, with the host's side of
the zygote) or to a thread (`thread_connection`). Programs run beside them: `command_run` conducts one below the zygote
(`forked_program`) or as a child of the host (`host_program`).
"""

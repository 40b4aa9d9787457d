"""Where statements run: `ports.environment.Environment` twice, over a worker process and in the host's own process.

`factory` is what hosts use. `connected_environment` and `statement_run` are what both environments share, over a
`connection` to a worker (`worker_connection`, with the host's side of the zygote) or to a thread (`thread_connection`).
Programs run beside them: `command_run` conducts one below the zygote (`forked_program`) or a child of the host's own
(`host_program`).
"""

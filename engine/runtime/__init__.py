"""The live Python namespace of a session: its host side, the worker process, the sandbox, and rebuilds.

Begin with `environment`, the interface that sessions use. `worker_environment` implements it over a `connection` to
a worker: `statement_run` runs one statement, `rebuild` a whole history, `programs` starts commands beside them.
`zygote` and `realm` are the parents of all these processes. `worker/` is the code that runs in them.
"""

"""The processes that run statements: a zygote that forks, and one worker per session that owns the namespace.

Begin with `interpreter`, which answers every request of the host, and `protocol`, the messages. `forking` makes these
processes; `boot.py` starts the first one, under the package name `_rewindow`. No module here may import an adapter, a
session, the store or a model client. The host shares `protocol`, `framing` and `processes`.
"""

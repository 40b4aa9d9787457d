"""The processes that run statements: a zygote that forks, and one worker per session that owns the namespace.

Nothing here may import the adapters, `sessions`, `store`, `models` or `tools`: these modules run in processes of their
own, under the package name `_rewindow`, and are started by `boot.py`. `protocol` and `processes` are shared with the
host.
"""

"""A session in a terminal: what `rewindow run` is made of. Rendering is pure; one module reads keys, one writes.

Stands on the engine's own face, as an adapter does. Must not be imported by an agent: the libraries that it needs
(prompt_toolkit, pygments) are for this command alone. Called by `cli.run`.
"""

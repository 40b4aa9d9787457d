"""A session in a terminal, for `rewindow run`.

`program` runs a person's session (`interaction`) or one prompt (`one_prompt`). `transcript` turns events into styled
text, and `screen` writes it. An agent must not import this package, because only `rewindow run` needs its libraries
(prompt_toolkit, pygments).
"""

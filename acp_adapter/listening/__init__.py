"""ACP over a network: the process that listens, and hands each message to the host of its user.

It holds connections and tokens, and runs no session and no statement. `users` says who may connect, `placement` where a
user's host runs, `connections` is a client as HTTP sees it, and `app` has the endpoint. `server` and `command` start
it. Nothing here is loaded by an agent on stdio.
"""

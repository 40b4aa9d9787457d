"""One conversation: from a prompt in the queue to its last event on the log.

A prompt goes through these modules, in this order:

1. `session` makes a `Ticket` (`requests`) and puts it into the queue. Nothing is awaited before that.
2. `queue` serves one ticket at a time. A steer joins the running turn; a command that only looks is answered at once.
3. `serving` decides what the text is: a slash command (`commands`), a statement, or a prompt for the model.
4. `agent_loop` runs a prompt's turn. `turn` decides the next effect, the loop performs it and reports the outcome.
5. `statements` runs a statement in the worker (`live_environment`) and records it. Its tool calls go to `tool_calls`,
   which asks the user (`policy`), acts (`tools`) and records the answer.
6. `journal` makes each event durable, then publishes it. The ticket ends after its last event is durable.

`registry` makes and loads sessions, `parts` and `session_runtime` put one together, `past` goes back in it and runs
statements again. Adapters and the command line use this room through the public API of `engine`.
"""

"""What a model reads: the View of the conversation, the tail of context objects, prompts, and the clients of models.

Must not know where statements run or who sends prompts.
"""

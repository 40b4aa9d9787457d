"""What is kept beside the log for rebuilding names: values, revisions of files, checkpoints, and their bound."""

"""`rewindow export` and `rewindow import`; rows of `cli.COMMANDS`."""

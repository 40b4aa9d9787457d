#!/bin/sh
# The shell by which npx starts the program of an MCP server: npx works elsewhere, the server in the session's directory.
# Scripts of packages that npx installs stay where they are.
if [ "$(pwd -P)" = /dev ] && [ -n "$REWINDOW_SERVER_DIRECTORY" ]; then
  cd -- "$REWINDOW_SERVER_DIRECTORY" || exit
  INIT_CWD=$PWD
  export INIT_CWD
fi
unset REWINDOW_SERVER_DIRECTORY
exec /bin/sh "$@"

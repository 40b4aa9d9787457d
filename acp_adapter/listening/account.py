"""Gives up root for the account of a user, and becomes the user's host: `python -m ... ACCOUNT ARGUMENTS`.

The host has the server's keys, so it must never be readable for other processes of the account. A process that has
given up root is not (PR_SET_DUMPABLE), but a program that is executed under the account is, until it says otherwise.

Imports the standard library alone before that, and none of the user's files: the account's home becomes known
afterwards, and Python is started with `-s`, because it runs files in the user's folder of packages else. Started by
`placement`.
"""

from __future__ import annotations

import os
import pwd
import sys


def main() -> None:
    name, *arguments = sys.argv[1:]
    account = pwd.getpwnam(name)
    os.umask(0o077)
    os.initgroups(account.pw_name, account.pw_gid)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    os.environ |= {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell,
    }
    sys.argv[1:] = arguments
    from rewindow_startup import rewindow_acp  # only now, because it loads much

    rewindow_acp()


main()

"""Ways out of a sandbox, each a few lines of Python that raise where they do not get out."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from engine.core.domain import Layer

Holder = Layer | Literal["privileges"]
"""`privileges` are what every process in a domain has given up: capabilities, and gaining new ones."""
User = Literal["root", "user"]


class Kind(NamedTuple):
    """A row of the documentation: what the attacks do, and what holds them.

    With Landlock from version `since` on. `as_root` and `as_user` hold them too, for root and for anybody else.
    `on_mac` says whether the profile for macOS holds them, which has not run: see `test_seatbelt`.
    """

    does: str
    held_by: tuple[Holder, ...]
    since: int = 3
    as_root: tuple[Holder, ...] = ()
    as_user: tuple[Holder, ...] = ()
    on_mac: str = "yes"


KINDS: Final[dict[str, Kind]] = {
    "content": Kind("write, create, move and delete files outside", ("landlock", "mounts")),
    "other trees": Kind(
        "write files by way of `/proc` of another process",
        ("landlock", "mounts"),
        as_root=("privileges",),
        on_mac="no such thing",
    ),
    "repository": Kind("change what git runs in a repository that may be written (mode `auto`)", ("mounts",)),
    "later": Kind("leave what others run later in a directory that may be written (mode `auto`)", (), on_mac="no"),
    "metadata": Kind("change modes, owners, times and attributes of files outside", ("mounts",)),
    "hidden": Kind("read this program's own state", ("mounts",)),
    "shared names": Kind(
        "write into shared memory and terminals of other programs",
        ("mounts",),
        on_mac="yes, except Python's own names (`/psm_`) and semaphores",
    ),
    "typing": Kind("put keys into terminals of other programs", ("seccomp", "mounts")),
    "devices": Kind("open disks and other devices for writing, as root", ("landlock",)),
    "disks": Kind("read disks as devices, as root, and find there what is hidden from it as files", (), on_mac="no"),
    "tcp": Kind("connect by TCP and listen on it", ("landlock", "seccomp"), since=4),
    "udp": Kind(
        "send and receive by UDP, and list the machine's addresses (netlink), while *Network* is off",
        ("seccomp",),
        on_mac="UDP yes, addresses no",
    ),
    "network": Kind(
        "use every other kind of network socket (UDP-Lite, MPTCP, SCTP, other kinds of netlink)", ("seccomp",)
    ),
    "raw network": Kind(
        "send packets of one's own making, as root", ("seccomp", "privileges"), on_mac="yes, while *Network* is off"
    ),
    "abstract sockets": Kind(
        "connect to abstract Unix sockets of other programs", ("landlock",), since=6, on_mac="no such thing"
    ),
    "path sockets": Kind("connect to Unix sockets in the file tree", ("landlock", "mounts"), since=9),
    "signals": Kind("send signals to other processes", ("landlock",), since=6),
    "limits": Kind("change limits of other processes", ("seccomp",), on_mac="no such thing"),
    "priorities": Kind(
        "change priorities and processors of other processes", ("seccomp",), as_root=("privileges",), on_mac="unknown"
    ),
    "memory": Kind(
        "read memory, environment and open files of other processes",
        ("landlock",),
        as_root=("privileges",),
        as_user=("mounts",),
        on_mac="memory and open files yes, environment no",
    ),
    "keys": Kind("use the kernel's keys", ("seccomp",), on_mac="no such thing"),
    "queues": Kind("use message queues, semaphores and shared memory by number", ("seccomp",)),
    "around": Kind(
        "go around the other layers: io_uring, calls of another architecture, `clone3`, `openat2`",
        ("seccomp",),
        on_mac="no such thing",
    ),
    "namespaces": Kind("become root in a namespace of one's own", ("seccomp",), on_mac="no such thing"),
    "kernel": Kind("look into the kernel: programs in it, counters, page faults", ("seccomp",), on_mac="unknown"),
    "mounts": Kind("mount, change the root, enter namespaces, as root", ("seccomp", "privileges")),
    "handles": Kind("open files by handle instead of by path, as root", ("seccomp",)),
    "root": Kind("use what else only root can: devices, host name, capabilities of files", ("privileges",)),
    "set-user-id": Kind("gain rights by starting a program that has more (`sudo`)", ("privileges",)),
    "ids": Kind("make a file that gives its owner's rights to others (set-user-ID, set-group-ID)", ("seccomp",)),
    "locks": Kind("hold locks and leases on files that it can read", (), on_mac="no"),
}


class Attack(NamedTuple):
    """`optional`: some kernels refuse it to everybody. `user`: for one of them alone."""

    kind: str
    name: str
    source: str
    user: User | None = None
    optional: bool = False


_CONTENT: Final = (
    ("open for writing", "open(a, 'w').write('x')"),
    ("append", "open(a, 'a').write('x')"),
    ("create", "open(f'{out}/new', 'w').write('x')"),
    ("pathlib", "pathlib.Path(a).write_text('x')"),
    ("os.open", "os.write(os.open(a, os.O_WRONLY), b'x')"),
    ("O_TRUNC when opened for reading", "os.open(a, os.O_RDONLY | os.O_TRUNC)"),
    ("os.truncate", "os.truncate(a, 1)"),
    ("O_TMPFILE", "os.open(out, os.O_TMPFILE | os.O_RDWR)"),
    ("directory descriptor", "os.write(os.open('a', os.O_WRONLY, dir_fd=os.open(out, os.O_RDONLY)), b'x')"),
    ("relative path", "os.chdir(out); open('a', 'w').write('x')"),
    ("remove", "os.remove(a)"),
    ("rmdir", "os.rmdir(f'{out}/empty')"),
    ("mkdir", "os.mkdir(f'{out}/new')"),
    ("rmtree", "shutil.rmtree(f'{out}/folder')"),
    ("rename within", "os.rename(a, f'{out}/new')"),
    ("rename a directory", "os.rename(f'{out}/folder', f'{out}/new')"),
    ("rename into scratch", "os.rename(a, f'{scratch}/stolen')"),
    ("rename over from scratch", "open(f'{scratch}/evil', 'w').close(); os.replace(f'{scratch}/evil', a)"),
    ("exchange", "open(f'{scratch}/evil', 'w').close(); exchange(f'{scratch}/evil', a)"),
    (
        "hard link from outside, then write",
        "os.link(a, f'{scratch}/linked'); open(f'{scratch}/linked', 'w').write('x')",
    ),
    ("hard link to outside", "open(f'{scratch}/evil', 'w').close(); os.link(f'{scratch}/evil', f'{out}/new')"),
    ("symbolic link made outside", "os.symlink('/etc', f'{out}/new')"),
    ("through a symbolic link in scratch", "os.symlink(a, fresh()); open(latest(), 'w').write('x')"),
    ("through a linked directory", "os.symlink(out, fresh()); open(latest() + '/new', 'w').write('x')"),
    ("mkfifo", "os.mkfifo(f'{out}/new')"),
    ("mknod", "os.mknod(f'{out}/new', 0o600 | stat.S_IFREG)"),
    ("bind a Unix socket", "socket.socket(socket.AF_UNIX).bind(f'{out}/new')"),
    ("shutil.copy", "shutil.copy('/etc/passwd', f'{out}/new')"),
    ("shutil.move", "open(f'{scratch}/evil', 'w').close(); shutil.move(f'{scratch}/evil', f'{out}/new')"),
    ("zipfile", "zipfile.ZipFile(f'{out}/new', 'w').close()"),
    ("sqlite3, new", "sqlite3.connect(f'{out}/new').execute('create table t(a)')"),
    ("sqlite3, existing", "sqlite3.connect(f'{out}/base').execute('create table t(a)')"),
    ("shell", "run(f'echo x > {a}')"),
    ("program in a directory outside", "subprocess.run(['/bin/sh', '-c', 'echo x > new'], cwd=out, check=True)"),
    ("script of its own", "open(f'{scratch}/s', 'w').write(f'echo x > {a}'); run(f'/bin/sh {scratch}/s')"),
    ("program in memory", "in_memory('/bin/touch', f'{out}/new')"),
    ("C library", "checked(libc.creat(f'{out}/new'.encode(), 0o600))"),
    ("system call", "call('openat', -100, f'{out}/new'.encode(), os.O_CREAT | os.O_WRONLY, 0o600)"),
    ("/proc/self/fd", "open(f'/proc/self/fd/{os.open(a, os.O_RDONLY)}', 'w').write('x')"),
    ("/proc/self/root", "open(f'/proc/self/root{a}', 'w').write('x')"),
    ("/proc/self/cwd", "os.chdir(out); open('/proc/self/cwd/a', 'w').write('x')"),
    ("/proc/self/fd of a place", "open(f'/proc/self/fd/{os.open(a, os.O_PATH)}', 'w').write('x')"),
    ("parent of scratch", "open(f'{scratch}/../outside/a', 'w').write('x')"),
    ("directory by descriptor", "in_directory(out)"),
    ("unnamed file of scratch", "linked_by_descriptor(scratch, f'{out}/new')"),
    ("/proc/thread-self/root", "open(f'/proc/thread-self/root{a}', 'w').write('x')"),
    ("thread", "in_thread(lambda: open(a, 'w').write('x'))"),
    ("forked process", "in_fork(lambda: open(a, 'w').write('x'))"),
    ("orphan of a statement", "in_fork(lambda: in_fork(lambda: open(a, 'w').write('x')))"),
    ("/tmp", "os.close(tempfile.mkstemp(dir='/tmp', prefix=mark)[0])"),
    ("oom_score_adj of another", "open(f'/proc/{victim}/oom_score_adj', 'w').write('1')"),
    ("pth file in site-packages", "open(f'{out}/site-packages/evil.pth', 'w').write('import os')"),
    ("compiled module", "open(f'{out}/project/__pycache__/m.cpython-311.pyc', 'wb').write(b'x')"),
    ("compiled module by import", "py_compile.compile(f'{out}/project/m.py', doraise=True)"),
    ("usercustomize", "os.makedirs(f'{home}/.local/lib/python3.11/site-packages')"),
    ("git hook", "open(f'{out}/project/.git/hooks/post-commit', 'w').write('x')"),
    ("git configuration", "open(f'{out}/project/.git/config', 'a').write('[core] fsmonitor = x')"),
    ("git configuration of the user", "open(f'{home}/.gitconfig', 'w').write('[core] hooksPath = /x')"),
    ("directory of PATH", "open(f'{out}/bin/ls', 'w').write('x')"),
    ("start of the shell", "open(f'{home}/.bashrc', 'a').write('x')"),
    ("authorized_keys", "open(f'{home}/.ssh/authorized_keys', 'w').write('x')"),
    ("systemd unit", "os.makedirs(f'{home}/.config/systemd/user')"),
    ("autostart", "os.makedirs(f'{home}/.config/autostart')"),
    ("editor settings", "os.makedirs(f'{home}/.vscode')"),
)

_REPOSITORY: Final = (
    ("configuration", "open(f'{work}/.git/config', 'a').write('x')"),
    ("hook", "open(f'{work}/.git/hooks/post-commit', 'w').write('x')"),
    ("hooks moved away", "os.rename(f'{work}/.git/hooks', f'{work}/others')"),
    (
        "configuration replaced",
        "open(f'{scratch}/evil', 'w').close(); os.replace(f'{scratch}/evil', f'{work}/.git/config')",
    ),
    ("repository moved away", "os.rename(f'{work}/.git', f'{work}/others')"),
    ("configuration of a submodule", "open(f'{work}/.git/modules/m/config', 'a').write('x')"),
    ("hook of a submodule", "open(f'{work}/.git/modules/m/hooks/post-commit', 'w').write('x')"),
    ("configuration of a repository within", "open(f'{work}/nested/.git/config', 'a').write('x')"),
    ("repository within moved away", "os.rename(f'{work}/nested', f'{work}/others')"),
    ("submodules moved away", "os.rename(f'{work}/.git/modules', f'{work}/others')"),
)
_LATER: Final = (
    ("repository in a directory", "os.makedirs(f'{work}/project/.git')"),
    ("another place for the configuration", "open(f'{work}/.git/commondir', 'w').write('x')"),
    ("attributes", "open(f'{work}/.gitattributes', 'w').write('x')"),
    ("environment of a directory", "open(f'{work}/.envrc', 'w').write('x')"),
    ("tasks of an editor", "os.makedirs(f'{work}/.vscode')"),
    ("tests", "open(f'{work}/conftest.py', 'w').write('x')"),
)
_METADATA: Final = (
    ("chmod", "os.chmod(a, 0o777)"),
    ("chmod of a directory", "os.chmod(out, 0o777)"),
    ("chmod of a descriptor", "os.fchmod(os.open(a, os.O_RDONLY), 0o777)"),
    ("chown", "os.chown(a, os.getuid(), os.getgid())"),
    ("utime", "os.utime(a, (1, 1))"),
    ("utime of a link", "os.utime(f'{out}/link', (1, 1), follow_symlinks=False)"),
)

_IDS: Final = (
    ("chmod", "open(f'{scratch}/own', 'w').close(); os.chmod(f'{scratch}/own', 0o4755)"),
    ("chmod for the group", "open(f'{scratch}/own', 'w').close(); os.chmod(f'{scratch}/own', 0o2755)"),
    ("chmod of a descriptor", "os.fchmod(os.open(f'{scratch}/own', os.O_CREAT | os.O_RDWR), 0o6777)"),
    ("chmod by a program", "open(f'{scratch}/own', 'w').close(); run(f'chmod u+s {scratch}/own')"),
    ("made so", "os.stat(os.open(f'{scratch}/ids', os.O_CREAT | os.O_RDWR, 0o4755)).st_mode & 0o4000 or refused()"),
    ("mknod", "os.mknod(f'{scratch}/node', 0o4755 | stat.S_IFREG)"),
)

_SOCKETS: Final = (
    ("tcp", "connect", "socket.create_connection(('127.0.0.1', tcp), 2)"),
    ("tcp", "listen", "socket.create_server(('127.0.0.1', 0))"),
    ("tcp", "non-blocking connect", "socket.socket().connect_ex(('127.0.0.1', tcp)) and refused()"),
    ("tcp", "from a program", "in_fork(lambda: socket.create_connection(('127.0.0.1', tcp), 2))"),
    ("udp", "UDP", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', udp))"),
    ("udp", "UDP, bound", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(('127.0.0.1', 0))"),
    ("network", "TCP fast open", "socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', tcp))"),
    ("udp", "netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)"),
    ("network", "system call", "call('socket', 2, 2, 0)"),
)

ATTACKS: Final[tuple[Attack, ...]] = (
    *(Attack("content", name, source) for name, source in _CONTENT),
    Attack("content", "core_pattern", "rewrite('/proc/sys/kernel/core_pattern')", user="root", optional=True),
    Attack("content", "SysRq", "os.open('/proc/sysrq-trigger', os.O_WRONLY)", user="root", optional=True),
    Attack("content", "cgroups", "os.open('/sys/fs/cgroup/cgroup.procs', os.O_WRONLY)", user="root", optional=True),
    Attack("content", "/sys", "rewrite('/sys/kernel/profiling')", user="root", optional=True),
    Attack("other trees", "root", "open(f'/proc/{victim}/root{a}', 'w').write('x')"),
    Attack("other trees", "working directory", "open(f'/proc/{victim}/cwd/a', 'w').write('x')"),
    Attack("other trees", "descriptor", "open(f'/proc/{victim}/fd/{victim_fd}', 'w').write('x')"),
    Attack("other trees", "memory", "os.open(f'/proc/{victim}/mem', os.O_WRONLY)"),
    *(Attack("repository", name, source) for name, source in _REPOSITORY),
    *(Attack("later", name, source) for name, source in _LATER),
    *(Attack("metadata", name, source) for name, source in _METADATA),
    Attack("metadata", "fchmodat2", "call('fchmodat2', -100, a.encode(), 0o777, 0)", optional=True),
    Attack("metadata", "attribute", "os.setxattr(a, 'user.x', b'x')", optional=True),
    Attack("metadata", "flags", "fcntl.ioctl(os.open(a, 0), 0x40086602, struct.pack('l', 0x40))", optional=True),
    Attack("hidden", "open", "open(f'{state}/db').read()"),
    Attack("hidden", "list", "os.listdir(state) or refused()"),
    Attack("hidden", "/proc/self/root", "open(f'/proc/self/root{state}/db').read()"),
    Attack("shared names", "shared memory of another", "os.write(os.open(shm, os.O_WRONLY), b'x')"),
    Attack("shared names", "delete shared memory", "os.remove(shm)"),
    Attack("typing", "a key", "in_fork(lambda: typed(tty))", optional=True),
    Attack("shared names", "write to a terminal", "os.stat(tty).st_dev == tty_device or refused(); open(tty, 'w')"),
    Attack("devices", "disk", "os.open(disk, os.O_WRONLY)", user="root", optional=True),
    Attack("disks", "read", "os.read(os.open(disk, os.O_RDONLY), 512)", user="root", optional=True),
    Attack("devices", "kernel messages", "os.open('/dev/kmsg', os.O_WRONLY)", user="root", optional=True),
    *(Attack(kind, name, source) for kind, name, source in _SOCKETS),
    Attack("tcp", "IPv6", "socket.create_connection(('::1', tcp6), 2)", optional=True),
    Attack("udp", "UDP over IPv6", "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)", optional=True),
    Attack("network", "MPTCP", "socket.socket(2, 1, 262).connect(('127.0.0.1', tcp))", optional=True),
    Attack("network", "VSOCK", "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)", optional=True),
    Attack("network", "ALG", "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)", optional=True),
    Attack("network", "ping", "socket.socket(2, 2, 1)", optional=True),
    Attack("raw network", "raw", "socket.socket(2, 3, 1)", user="root"),
    Attack("raw network", "packet", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", user="root", optional=True),
    Attack("abstract sockets", "stream", "socket.socket(socket.AF_UNIX).connect(abstract)"),
    Attack("abstract sockets", "datagram", "socket.socket(1, 2).sendto(b'x', abstract_datagram)"),
    Attack("path sockets", "stream", "socket.socket(socket.AF_UNIX).connect(path_socket)"),
    Attack("path sockets", "datagram", "socket.socket(1, 2).sendto(b'x', f'{path_socket}-datagram')"),
    Attack(
        "path sockets",
        "directory descriptor",
        "os.chdir(os.open(os.path.dirname(path_socket), os.O_RDONLY)); socket.socket(1).connect('socket')",
    ),
    Attack("signals", "kill", "os.kill(victim, signal.SIGUSR1)"),
    Attack("signals", "kill, to end it", "end(victim)"),
    Attack("signals", "killpg", "os.killpg(victim, signal.SIGUSR1)"),
    Attack("signals", "tgkill", "call('tgkill', victim, victim, int(signal.SIGUSR1))"),
    Attack("signals", "pidfd", "signal.pidfd_send_signal(os.pidfd_open(victim), signal.SIGUSR1)"),
    Attack("signals", "tkill", "call('tkill', victim, int(signal.SIGUSR1))"),
    Attack("signals", "queued", "call('rt_sigqueueinfo', victim, 10, struct.pack('iii116x', 10, 0, -1))"),
    Attack("signals", "by a descriptor's owner", "ended_by_a_pipe(victim)"),
    Attack("signals", "program", "run(f'kill -USR1 {victim}')"),
    Attack("limits", "prlimit", "resource.prlimit(victim, resource.RLIMIT_NOFILE, (64, 64))"),
    Attack("priorities", "setpriority", "os.setpriority(os.PRIO_PROCESS, victim, os.getpriority(0, victim) + 1)"),
    Attack(
        "priorities", "setpriority of a group", "os.setpriority(os.PRIO_PGRP, victim, os.getpriority(0, victim) + 2)"
    ),
    Attack("priorities", "affinity", "os.sched_setaffinity(victim, {0})"),
    Attack("priorities", "scheduler", "os.sched_setscheduler(victim, os.SCHED_BATCH, os.sched_param(0))"),
    Attack(
        "priorities",
        "attributes",
        "call('sched_setattr', victim, struct.pack('IIQiIQQQ', 48, 3, 0, os.getpriority(0, victim), 0, 0, 0, 0), 0)",
    ),
    Attack("priorities", "ioprio", "call('ioprio_set', 1, victim, 0x4007)"),
    Attack("memory", "environment", "open(f'/proc/{victim}/environ', 'rb').read() or refused()"),
    Attack("memory", "maps", "open(f'/proc/{victim}/maps').read(1) or refused()"),
    Attack("memory", "mem", "os.open(f'/proc/{victim}/mem', os.O_RDONLY)"),
    Attack("memory", "ptrace", "in_fork(lambda: call('ptrace', 0x4206, victim, 0, 0))"),
    Attack("memory", "process_vm_readv", "read_memory(victim)"),
    Attack("memory", "process_vm_writev", "write_memory(victim)"),
    Attack("memory", "kcmp", "call('kcmp', os.getpid(), victim, 0, 0, 0)", optional=True),
    Attack("memory", "migrate_pages", "call('migrate_pages', victim, 0, None, None)", optional=True),
    Attack("memory", "working directory", "os.readlink(f'/proc/{victim}/cwd')"),
    Attack("memory", "pidfd_getfd", "call('pidfd_getfd', os.pidfd_open(victim), victim_fd, 0)"),
    Attack("memory", "open files", "os.readlink(f'/proc/{victim}/fd/{victim_fd}')"),
    Attack("keys", "list the session's", "call('keyctl', 0, -3, 1)"),
    Attack("keys", "add", "call('add_key', b'user', mark.encode(), b'x', 1, -2)"),
    Attack("queues", "shared memory", "call('shmget', segment_key, 4096, 0)"),
    Attack("queues", "messages", "call('msgctl', call('msgget', 0, 0o600), 0, None)"),
    Attack("queues", "semaphores", "call('semctl', call('semget', 0, 1, 0o600), 0, 0)"),
    Attack("queues", "POSIX messages", "posix_queue()", optional=True),
    *(Attack("ids", name, source) for name, source in _IDS),
    Attack("around", "openat2", "call('openat2', -100, b'/etc/passwd', struct.pack('QQQ', os.O_RDONLY, 0, 0), 24)"),
    Attack("around", "io_uring", "call('io_uring_setup', 4, bytes(120))", optional=True),
    Attack("around", "clone3", "forked_by('clone3', struct.pack('QQQQQ24x', 0, 0, 0, 0, 17), 64)"),
    Attack("around", "x32", "x32()", optional=True),
    Attack("around", "calls of 32 bits", "in_fork(interrupt_80)", optional=True),
    Attack("namespaces", "unshare", "in_fork(lambda: checked(libc.unshare(0x10000000)))"),
    Attack("namespaces", "clone", "forked_by('clone', 0x10000000 | 17, 0, 0, 0, 0)"),
    Attack("kernel", "page faults", "call('userfaultfd', 1)", optional=True),
    Attack("kernel", "programs", "call('bpf', 0, struct.pack('IIII112x', 1, 4, 4, 1), 128)", optional=True),
    Attack("kernel", "counters", "call('perf_event_open', counter, 0, -1, -1, 0)", optional=True),
    Attack("mounts", "copy of a tree", "call('open_tree', -100, out.encode(), 1)", user="root"),
    Attack("mounts", "new file system", "call('fsopen', b'tmpfs', 0)", user="root"),
    Attack("mounts", "network namespace", "in_fork(lambda: checked(libc.unshare(0x40000000)))", user="root"),
    Attack("mounts", "mount", "in_fork(mounted)", user="root"),
    Attack("mounts", "mount namespace of another", "in_fork(lambda: joined(f'/proc/{victim}/ns/mnt'))", user="root"),
    Attack("mounts", "chroot", "in_fork(lambda: os.chroot(scratch))", user="root"),
    Attack("handles", "write", "by_handle(a)", user="root", optional=True),
    Attack("root", "device in scratch", "os.mknod(fresh(), 0o600 | stat.S_IFBLK, os.makedev(7, 0))", user="root"),
    Attack("root", "host name", "socket.sethostname(socket.gethostname())", user="root"),
    Attack("root", "capabilities of a file", "capable(fresh())", user="root"),
    Attack("root", "another user", "in_fork(lambda: os.setresuid(1234, 1234, 1234))", user="root"),
    Attack("root", "deciding who may open files", "call('fanotify_init', 4, 0)", user="root", optional=True),
    Attack("root", "accounting", "call('acct', None)", user="root", optional=True),
    Attack("root", "kernel log", "kernel_log()", user="root", optional=True),
    Attack("root", "higher limits", "raise_limit()", user="root", optional=True),
    Attack("set-user-id", "program", "set_user_id()", user="user"),
    Attack("locks", "lease", "fcntl.fcntl(os.open(a, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)"),
    Attack("locks", "flock", "fcntl.flock(os.open(a, os.O_RDONLY), fcntl.LOCK_EX)"),
)

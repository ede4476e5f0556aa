"""Start a PostgreSQL program as somebody it accepts, and tie its life to ours.

PostgreSQL refuses to run as root, and containers run as root. The launcher is a small program of its own,
started by path between Rota and the server: it takes an identity, asks the kernel for a signal when its
parent dies, and becomes the server by exec. The process id stays the same, so the server is our direct
child and its exit is seen. It is a program and not a `preexec_fn`, because code between fork and exec is
unsafe once the parent has threads, and because only a process with a single thread can enter a user
namespace.

Who the server runs as, when Rota is root, the first that works:

1. `namespace`: a user namespace in which root is called `nobody`. To the server the user is not root; on
   disk all files stay owned by root. No user is added and no file changes hands. The inner id has to be in
   the password file, because initdb looks its own name up.
2. `user`: `postgres`, else `nobody`, by setuid. For where namespaces are forbidden, as the default seccomp
   profile of containers does. That user must be able to reach the binaries and the data folder.

A data folder that belongs to somebody else than root decides the question: its owner runs it.

Parent death: PR_SET_PDEATHSIG survives exec but is cleared when credentials change, so it is set last, and
the parent is looked at once more afterwards, in case it died before. The signal is SIGINT, at which
postgres closes its sessions and writes a checkpoint. The kernel sends it when the *thread* that started the
child ends, so the caller must start us from a thread that lives as long as the child. Linux only.

This file is run with `-I -S`: it may import the standard library only, and of that as little as it can.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path  # a third of the start-up time, and the launched program has no use for it

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
EXIT_NOT_LAUNCHED = 125


class Identity(NamedTuple):
    """Who runs the server: `self`, or the ids to take inside a `namespace`, or as another `user`."""

    kind: str
    uid: int
    gid: int

    def command(self, argv: Sequence[str], work_dir: "Path") -> list[str]:
        """The command line that runs `argv` as this identity, in `work_dir`, as a child of this process."""
        ids = (str(self.uid), str(self.gid), str(os.getpid()))
        return [sys.executable, "-I", "-S", __file__, self.kind, *ids, str(work_dir), *argv]

    def take(self, path: "Path") -> None:
        """Hand `path` and all below it to a `user`. The other identities own what we own."""
        if self.kind == "user":
            for found in (path, *path.rglob("*")):
                if found.lstat().st_uid != self.uid:
                    os.chown(found, self.uid, self.gid, follow_symlinks=False)

    def __str__(self) -> str:
        return "in a user namespace" if self.kind == "namespace" else f"as user {self.uid}"


def identities(data_dir: "Path") -> list[Identity]:
    """Who could run the server on this folder, the preferred first."""
    if os.geteuid() != 0:
        return [Identity("self", os.geteuid(), os.getegid())]
    if data_dir.exists() and (owner := data_dir.stat()).st_uid != 0:
        return [Identity("user", owner.st_uid, owner.st_gid)]

    import pwd  # not for the launched program, which is told its ids

    found = []
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            found.append(Identity("user", user.pw_uid, user.pw_gid))
    inner = next((user.uid for user in reversed(found)), 0)
    if sys.platform == "linux" and inner:
        found.insert(0, Identity("namespace", inner, inner))
    return found


def _enter_namespace(uid: int, gid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    # A group map may be written without privilege only once setgroups is given up, hence the order.
    for name, text in (
        ("uid_map", f"{uid} {outer_uid} 1"),
        ("setgroups", "deny"),
        ("gid_map", f"{gid} {outer_gid} 1"),
    ):
        file = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(file, text.encode())  # the kernel takes a map in one write or not at all
        finally:
            os.close(file)


def _die_with(parent: int) -> None:
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if os.getppid() != parent:
        raise ProcessLookupError(f"process {parent} is gone")


def main(argv: Sequence[str]) -> int:
    """Take the identity, follow the parent, exec. Returns only when one of them fails."""
    kind, uid, gid, parent, work_dir, *command = argv
    # What is ignored or blocked stays so through exec: Python ignores SIGPIPE, a shell ignores SIGINT for a
    # background job. The server and initdb expect a clean table.
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    step = ""
    try:
        if kind == "namespace":
            step = "enter a user namespace"
            _enter_namespace(int(uid), int(gid))
        elif kind == "user":
            step = f"become user {uid}"
            os.setgroups(())
            os.setgid(int(gid))
            os.setuid(int(uid))
        step = "follow the parent process"
        _die_with(int(parent))
        # Away from the folder of the caller, which the identity may be unable to read.
        step = f"enter {work_dir}"
        os.chdir(work_dir)
        step = f"run {command[0]}"
        os.execv(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot {step}: {error.strerror or error}\n")
    return EXIT_NOT_LAUNCHED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Tries everything that a sandbox must refuse, then solves the problem; prints what it found."""

import ctypes
import os
import socket
import urllib.request

import torch.distributed as dist


def attempt(name, action):
    try:
        found = action()
    except BaseException as error:
        print(f"{name}: refused ({type(error).__name__})", flush=True)
    else:
        print(f"{name}: ALLOWED {found!r}", flush=True)


def connect():
    socket.create_connection(("1.1.1.1", 53), timeout=1).close()


def write(path):
    with open(path, "w") as file:
        file.write("x")


def oracle_module():
    import problems

    return problems.__file__


def judge_module():
    import evaluator.host

    return evaluator.host.__file__


def secrets_of_others():
    mine = {os.getpid(), os.getppid(), 1}
    others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in mine]
    if len(others) > 4:
        return others
    raise PermissionError


def environment():
    names = [name for name in os.environ if "SECRET" in name or "PKB" in name or "KEY" in name]
    if names:
        return names
    raise PermissionError


def system_call(name, *arguments):
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


attempt("ptrace", lambda: system_call("ptrace", 16, os.getppid(), 0, 0))
attempt("namespace", lambda: system_call("unshare", 0x10000000))
attempt("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("network", connect)
attempt("web", lambda: urllib.request.urlopen("http://example.org", timeout=1))
attempt("problems", oracle_module)
attempt("host", judge_module)
attempt("root", lambda: write("/owned"))
attempt("source", lambda: write("/source/solution.py"))
attempt("usr", lambda: write("/usr/owned"))
attempt("shadow", lambda: open("/etc/shadow").read())
attempt("home", lambda: os.listdir(os.path.expanduser("~root") + "/.ssh"))
attempt("processes", secrets_of_others)
attempt("environment", environment)


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out

"""Run a Python program in a process that the server forks. Run as ``python -I -S launch.py FILES ARGUMENTS``, where FILES
are the numbers of the open files that the program needs, joined by commas.
"""

import json
import os
import resource
import signal
import socket
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ.pop("TESTS_PRELOADED_SOCKET"))
    files = [0, 1, 2, *map(int, filter(None, sys.argv[1].split(",")))]
    request = {"argv": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd(), "files": files}
    message = json.dumps(request).encode()
    socket.send_fds(connection, [len(message).to_bytes(8, "big")], files)
    connection.sendall(message)
    answers = connection.makefile()
    process = int(answers.readline())
    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: os.kill(process, number))
    code = int(answers.readline() or -signal.SIGKILL)
    if code < 0:  # end with the same signal, without another core file
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


main()

#!/usr/bin/env python3
"""Runs a command with a limit of CPU seconds, and writes its peak resident memory in MiB and its
CPU seconds to a file. Exits with the command's status, or with 128 plus the number of the signal
that ended it.

usage: measure.py FILE SECONDS COMMAND...
"""

import os
import resource
import subprocess
import sys


def main():
    seconds = int(sys.argv[2])
    child = subprocess.Popen(sys.argv[3:], preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_CPU, (seconds, seconds)))
    _, status, usage = os.wait4(child.pid, 0)
    with open(sys.argv[1], "w") as file:
        file.write(f"{usage.ru_maxrss // 1024} {usage.ru_utime + usage.ru_stime:.1f}\n")
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


main()

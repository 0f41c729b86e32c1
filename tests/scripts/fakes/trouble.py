"""What goes wrong in the programs of this folder: FAKE_FAIL and FAKE_HANG are patterns of their command lines."""
import os
import re
import signal
import sys
import time


def trouble(line):
    def planned(kind):
        return os.environ.get(kind) and re.search(os.environ[kind], line)
    if planned("FAKE_FAIL"):
        print(f"planned failure of: {line}", file=sys.stderr, flush=True)
        sys.exit(3)
    if planned("FAKE_HANG"):
        print(f"planned hang of: {line}", file=sys.stderr, flush=True)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as a process that waits for a driver
        time.sleep(600)

"""Says "ready", waits for SIGINT, counts how many come within a second; exit code 5."""

import signal
import sys
import time

count = 0


def note(_number, _frame):
    global count
    count += 1


signal.signal(signal.SIGINT, note)
print("ready", flush=True)
deadline = time.monotonic() + 20
while count == 0 and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(1)
print("interrupts", count)
sys.exit(5)

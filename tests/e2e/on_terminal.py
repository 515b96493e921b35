"""Runs a command on its own terminal, presses Ctrl-C once it says "ready", prints what it said."""

import os
import pty
import sys

pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
said = b""
is_pressed = False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:  # the program has ended
        break
    if not part:
        break
    said += part
    if b"ready" in said and not is_pressed:
        os.write(terminal, b"\x03")
        is_pressed = True
os.waitpid(pid, 0)
print(said.decode().replace("\r\n", "\n"), end="")

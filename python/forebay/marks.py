"""Writes marks to the file that `forebay record` reads: one line each, in one system call.

A line is "KIND NANOSECONDS TID TEXT": B begins a range, E ends it, X takes its begin back, I is a
moment; the clock is CLOCK_MONOTONIC.
"""

import functools
import os
import threading
import time
import warnings

_TEXT_BYTES_MAX = 200


class _File:
    """The file of this process; a child of fork opens its own."""

    def __init__(self):
        self.folder = os.environ.get("FOREBAY_MARKS")
        self.pid = None
        self.descriptor = None

    def write(self, kind, text):
        if not self.folder:
            return
        if self.pid != os.getpid():
            self.open()
        if self.descriptor is None:
            return
        line = b"%s %d %d %s\n" % (kind, time.clock_gettime_ns(time.CLOCK_MONOTONIC),
                                   threading.get_native_id(), text)
        try:
            os.write(self.descriptor, line)
        except OSError:  # a full disk loses marks, nothing else
            pass

    def open(self):
        self.pid = os.getpid()
        try:
            self.descriptor = os.open(f"{self.folder}/{self.pid}.marks",
                                      os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:  # the recording has ended
            self.descriptor = None


_file = _File()


def _encode(text):
    one_line = " ".join(str(text).split())
    return one_line.encode("utf-8", "replace")[:_TEXT_BYTES_MAX]


class mark:
    """A range as context manager or decorator; now() marks a moment instead.

    One that is used for none of these marks nothing, and warns.
    """

    __slots__ = ("_text", "_is_used")

    def __init__(self, text):
        self._is_used = True  # should this fail
        self._text = _encode(text)
        self._is_used = False

    def __del__(self):
        if not self._is_used:
            text = self._text.decode("utf-8", "replace")
            warnings.warn(f"forebay.mark({text!r}) alone marks nothing: a range is `with "
                          f"forebay.mark({text!r}):`, a moment `forebay.mark({text!r}).now()`",
                          stacklevel=2)

    def __enter__(self):
        self._is_used = True
        _file.write(b"B", self._text)
        return self

    def __exit__(self, *_):
        _file.write(b"E", self._text)
        return False

    def __call__(self, function):
        self._is_used = True
        text = self._text

        @functools.wraps(function)
        def marked(*arguments, **named):
            _file.write(b"B", text)
            try:
                return function(*arguments, **named)
            finally:
                _file.write(b"E", text)

        return marked

    def now(self):
        self._is_used = True
        _file.write(b"I", self._text)

    @staticmethod
    def steps(iterable, text="step"):
        """The items of `iterable`. A step lasts from asking for an item to asking for the next."""
        iterator = iter(iterable)
        number = 0
        while True:
            step = _encode(f"{text} {number}")
            _file.write(b"B", step)
            try:
                item = next(iterator)
            except StopIteration:
                _file.write(b"X", step)
                return
            except BaseException:
                _file.write(b"E", step)
                raise
            try:
                yield item
            finally:
                _file.write(b"E", step)
            number += 1

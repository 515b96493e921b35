"""What can go wrong.

    Error                    everything below
      ConfigError            the request is wrong: a name, a value, a state of another data set
                             (also a ValueError)
      NotFound               no such folder, file, bucket; a folder without samples
                             (also a FileNotFoundError)
      DataError              bytes are not what they claim to be (also a ValueError)
      StorageError           the system, the disk or the network failed (also an OSError)
      Unsupported            valid, but this build or machine cannot do it
                             (also a NotImplementedError)
      Closed                 the loader was closed while or before it was used
      ResourceExhausted      disk, memory, descriptors, or the allowance of bad records

Where one record is to blame, the error has its `file`, `record` (its number in the file, from 0)
and `offset` (where it begins in the file, for formats whose records have bytes of their own). An
error of a file as a whole has its `file`, and the `offset` from which on it is lost where it is
cut. What is not known is None.
"""

from __future__ import annotations

import re
from typing import Optional

__all__ = ["Error", "ConfigError", "NotFound", "DataError", "StorageError", "Unsupported", "Closed",
           "ResourceExhausted"]


class Error(Exception):
    """Base of all that this package raises by itself."""

    file: Optional[str] = None
    offset: Optional[int] = None
    record: Optional[int] = None

    def __init__(self, message: str = "", file: Optional[str] = None,
                 offset: Optional[int] = None, record: Optional[int] = None):
        super().__init__(message)
        self.file, self.offset, self.record = file, offset, record


class ConfigError(Error, ValueError):
    """The request itself is wrong."""


class NotFound(Error, FileNotFoundError):
    """The named thing does not exist, or holds no samples."""


class DataError(Error, ValueError):
    """A record is damaged: cut off, a wrong checksum, not what its name says."""


class StorageError(Error, OSError):
    """The system, the disk or the network failed."""


class Unsupported(Error, NotImplementedError):
    """Valid, but this build or machine cannot do it."""


class Closed(Error):
    """The loader is closed."""


class ResourceExhausted(Error):
    """Disk, memory, descriptors, or the allowance of bad records are used up."""


_OF_CODE = {
    "invalid argument": ConfigError,
    "not found": NotFound,
    "corrupt": DataError,
    "I/O error": StorageError,
    "unsupported": Unsupported,
    "cancelled": Closed,
    "resource exhausted": ResourceExhausted,
}

# Of bytes that are bad, before there are records: "what was being done: FILE: cause".
_FILE = re.compile(r"(?:^|: )((?:[a-z0-9]+://)?[^:\s][^:]*\.\w[^:/]*): ")


def _from_code(code: str, message: str) -> Error:
    """Called by the binding, which adds the place of a record: the exception for one of its error
    codes."""
    kind = _OF_CODE.get(code, Error)
    file = _FILE.search(message) if kind in (DataError, StorageError) else None
    return kind(message, file.group(1) if file else None)

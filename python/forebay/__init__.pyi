from forebay.errors import (Closed as Closed, ConfigError as ConfigError, DataError as DataError,
                            Error as Error, NotFound as NotFound,
                            ResourceExhausted as ResourceExhausted, StorageError as StorageError,
                            Unsupported as Unsupported)
from forebay.loader import Loader as Loader, Plan as Plan, Source as Source
from forebay.marks import mark as mark
from forebay.op import Op as Op, python as python
from forebay.ops import *

__all__ = ["mark", "Error", "ConfigError", "NotFound", "DataError", "StorageError", "Unsupported",
           "Closed", "ResourceExhausted", "Loader", "Source", "Plan", "Op", "python"]

__version__: str

def __dir__() -> list[str]: ...

"""Mistakes of a user. Internal invariants are asserts; these are for people, and for programs that call us.

Every message says what was wrong, where (file and line when there is one) and what to do. The command line prints it
without a traceback and exits with status 2.
"""

import reprlib


class UserError(ValueError):
    """Something that the user gave cannot be used. Raise one of the classes below; catch this one for all of them."""


class CorpusError(UserError):
    """Text or pairs cannot be used: a corpus to read, fetch or make, a line of input, a reference of alignments."""


class SettingsError(UserError):
    """A setting, an option or an argument is unknown, out of range, contradicts another, or is not available here."""


class ModelError(UserError):
    """A model directory is missing, damaged, or does not fit what it is asked to do."""


class StorageError(UserError):
    """Files that Dragoman writes cannot be written or read: checkpoints, runs, logs, outputs; a full disk, a lock."""


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def quoted(value: object) -> str:
    """Return a value from a file as a message shows it: escaped, so that it cannot pass for our words, and not long."""
    return _SHORT.repr(value)


def reason_of(error: Exception) -> str:
    """Return what an error says; without the path that the system's errors repeat, as our messages begin with it."""
    return (isinstance(error, OSError) and error.strerror) or str(error)

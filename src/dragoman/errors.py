"""Errors caused by what the user provided: files, text, settings, options.

Internal invariants are asserts; these classes are for users and for programs that call Dragoman. Each message states
what was wrong, where (file and line if there is one) and what to do. The command line prints the message without a
traceback and exits with status 2.
"""

import reprlib


class UserError(ValueError):
    """Base class of all errors about what the user provided; code raises one of the subclasses.

    Example:
        >>> from dragoman.data.readers import parse_corpus
        >>> try:
        ...     corpus = parse_corpus("corpus.docx")
        ... except UserError as error:
        ...     print(type(error).__name__)
        CorpusError
    """


class CorpusError(UserError):
    """Text or pairs cannot be used: a corpus, a line of input, reference alignments."""


class SettingsError(UserError):
    """A setting, option or argument is unknown, out of range, contradicts another one or is not available here."""


class ModelError(UserError):
    """A model directory is missing or damaged, or the model does not support the requested operation."""


class StorageError(UserError):
    """A file that Dragoman writes (checkpoint, run, log, output) cannot be used: damage, a full disk, a lock."""


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def quoted(value: object) -> str:
    """Return the representation of a value from a file, for use in a message: escaped, and shortened if it is long."""
    return _SHORT.repr(value)


def reason_of(error: Exception) -> str:
    """Return the text of an error, without the path that an OSError repeats: the messages here begin with it."""
    return (isinstance(error, OSError) and error.strerror) or str(error)

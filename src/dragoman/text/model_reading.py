"""Reading of the file of a vocabulary of any kind."""

from collections.abc import Mapping
from pathlib import Path

from dragoman.errors import ModelError, reason_of
from dragoman.files import read_verified
from dragoman.text.character_model import CharacterModel
from dragoman.text.characters import SPACE_MARK
from dragoman.text.subwords import SubwordModel
from dragoman.text.symbols import SymbolModel
from dragoman.text.token_model import TokenModel

# Largest size of a tokenizer file in bytes: about half a million subwords.
LARGEST_TOKENIZER = 1 << 24


def read_model(serialized: bytes) -> TokenModel:
    """Return the vocabulary in the content of a file: of subwords, of whole symbols, of characters or of bytes.

    Raises:
        ValueError: if this is not a file that Dragoman can have written.
    """
    # A sentencepiece model cannot begin like this: the byte is the key of a field that it does not have.
    if serialized.startswith(b"{"):
        return CharacterModel(serialized)
    model = SubwordModel(serialized)
    # Sentencepiece does not report the type of a model. But a vocabulary of subwords contains the single letters, and
    # in a vocabulary of symbols every entry begins a word.
    whole = all(piece.startswith(SPACE_MARK) and piece != SPACE_MARK for piece in model.pieces)
    return SymbolModel(serialized) if whole else model


def read_model_file(path: Path, digests: Mapping[str, str] | None, *, running: bool) -> TokenModel:
    """Return the vocabulary in a file.

    Args:
        path: the file.
        digests: SHA-256 by file name, as listed in config.json; None to skip the verification.
        running: True if the vocabulary must be one of running text, False if it must be one of lines of text. A
            vocabulary of characters or bytes is both.

    Raises:
        ModelError: if the file is missing, is damaged, differs from its digest, or is the vocabulary of other text.
    """
    try:
        model = read_model(read_verified(path, LARGEST_TOKENIZER, digests))
        if isinstance(model, SubwordModel) and model.space_before == running:
            raise ValueError(f"it is the vocabulary of a {'translation' if running else 'language'} model")
        return model
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{path}: the tokenizer cannot be read ({reason_of(error)}); copy the model directory again"
        ) from error

"""The tokenizers of model directories, checked against the descriptions of the models."""

from pathlib import Path

from dragoman.errors import ModelError
from dragoman.models.config import Seq2SeqConfig
from dragoman.models.description import ModelDescription, seq2seq_config, text_model_config
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.vocabulary import VOCABULARY_FILE, Vocabulary


def load_tokenizer(directory: Path, description: ModelDescription, *, right_to_left: bool) -> Tokenizer:
    """Load the tokenizer of a sequence-to-sequence model.

    Raises:
        ModelError: it is damaged, or not the one that the model was trained with; or the model is of another kind.
    """
    model: Seq2SeqConfig = seq2seq_config(description, directory)
    tokenizer = Tokenizer.load(directory, right_to_left=right_to_left, digests=description.listed)
    _check_hash(directory, description, tokenizer.vocabulary_hash)
    _check_size(directory, "source subwords", tokenizer.source_size, model.source_vocabulary)
    _check_size(directory, "target subwords", tokenizer.target_size, model.target_vocabulary)
    return tokenizer


def load_vocabulary(directory: Path, description: ModelDescription) -> Vocabulary:
    """Load the vocabulary of a model of texts.

    Raises:
        ModelError: it is damaged, or not the one that the model was trained with; or the model was imported without
            one, or translates.
    """
    model = text_model_config(description, directory)
    if VOCABULARY_FILE not in (description.listed or {}) and not (directory / VOCABULARY_FILE).exists():
        raise ModelError(
            f"{directory} has no tokenizer, as after `dragoman import`: the model takes token ids, from Python "
            "(dragoman.models.storage.load_language_model and load_encoder)"
        )
    vocabulary = Vocabulary.load(directory, description.listed)
    _check_hash(directory, description, vocabulary.vocabulary_hash)
    _check_size(directory, "tokens", vocabulary.size, model.vocabulary)
    return vocabulary


def _check_hash(directory: Path, description: ModelDescription, vocabulary_hash: str) -> None:
    if description.vocabulary_hash not in (None, vocabulary_hash):
        raise ModelError(
            f"the tokenizer in {directory} is damaged, or not the one that the model was trained with: copy the "
            "directory again"
        )


def _check_size(directory: Path, unit: str, tokenizer_size: int, model_size: int) -> None:
    if tokenizer_size != model_size:
        raise ModelError(
            f"the tokenizer in {directory} is not the model's: it has {tokenizer_size:,} {unit}, the model "
            f"{model_size:,}; copy the directory again"
        )

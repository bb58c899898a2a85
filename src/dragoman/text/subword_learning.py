"""Learning of a vocabulary of subwords or of whole symbols by sentencepiece."""

from collections.abc import Iterable
from io import BytesIO
from typing import Literal

import sentencepiece

from dragoman.errors import CorpusError, SettingsError, UserError
from dragoman.text.subwords import BOS, EOS, PAD, UNK, utf8

# The result of training depends on the number of threads, so that number must not depend on the machine.
_TRAINING_THREADS = 8


def learn_subwords(
    texts: Iterable[str],
    kind: Literal["unigram", "bpe", "word"],
    *,
    vocabulary_size: int,
    character_coverage: float,
    max_line_bytes: int,
    space_before: bool,
) -> bytes:
    """Return the serialised sentencepiece model of the subwords of the texts.

    Args:
        texts: the texts.
        kind: sentencepiece's type of a model.
        vocabulary_size: largest number of token ids.
        character_coverage: fraction of the characters that get subwords.
        max_line_bytes: longer texts are not used.
        space_before: encode each text as if a space preceded it, so that its first word is encoded like its others.
            False for running text, which must be decoded exactly wherever it is divided.

    Raises:
        CorpusError: if there is no text to learn from.
        SettingsError: if the vocabulary is too small for the characters of the text.
    """
    written = BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(utf8, texts),
            model_writer=written,
            model_type=kind,
            vocab_size=vocabulary_size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            max_sentence_length=max_line_bytes,
            byte_fallback=True,
            # Numbers are split into digits, so that a model can copy numbers that the corpus does not contain.
            split_digits=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=space_before,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            num_threads=_TRAINING_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _training_failure(str(error), vocabulary_size, max_line_bytes) from error
    return written.getvalue()


def _training_failure(message: str, vocabulary_size: int, max_line_bytes: int) -> UserError:
    if "smaller than required_chars" in message:
        return SettingsError(
            f"vocabulary_size {vocabulary_size} is too small for the characters of this corpus; "
            "use a larger vocabulary_size or a smaller character_coverage"
        )
    if "sentences_.empty()" in message:
        return CorpusError(
            "no text to learn a tokenizer from: the corpus is empty, or all its lines have more than "
            f"{max_line_bytes} bytes (max_line_bytes)"
        )
    return CorpusError(f"sentencepiece could not learn from this corpus: {message}")

"""Language models with random weights, and their vocabularies."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from dragoman.generation.generator import Generator
from dragoman.inspection.recording import TextModel
from dragoman.models.config import TextModelConfig
from dragoman.models.description import ModelDescription
from dragoman.models.language_model import LanguageModel
from dragoman.models.registry import architecture_of, build_language_model, text_preset
from dragoman.models.storage import save_model, weights_of
from dragoman.representation.loading import Reader
from dragoman.representation.text_analyzer import TextAnalyzer
from dragoman.text.subwords import BOS, EOS
from dragoman.text.vocabulary import Vocabulary, VocabularyConfig, train_vocabulary

Kind = Literal["character", "byte", "unigram"]
SPEECH = """ROMEO:
But, soft! what light through yonder window breaks?
It is the east, and Juliet is the sun.

JULIET:
O Romeo, Romeo! wherefore art thou Romeo?
"""


@cache
def vocabulary(kind: Kind = "character") -> Vocabulary:
    """Return a vocabulary of a few lines of English."""
    return train_vocabulary([SPEECH] * 3, VocabularyConfig(kind=kind, vocabulary_size=320))


def config(kind: Kind = "character", architecture: str = "language", **settings: Any) -> TextModelConfig:
    """Return the preset `tiny` with one layer, a context of 16 tokens and these settings."""
    small = {"layers": 1, "d_model": 32, "context": 16}
    return replace(text_preset("tiny", vocabulary(kind).size, architecture=architecture), **{**small, **settings})


def random_model(kind: Kind = "character", architecture: str = "language", **settings: Any) -> LanguageModel:
    """Return a model with random weights, scaled so that the output distributions are not uniform."""
    torch.manual_seed(0)
    model = build_language_model(config(kind, architecture, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8 if architecture == "language" else 2)
    return model.eval()


def random_generator(kind: Kind = "character", architecture: str = "language", **settings: Any) -> Generator:
    """Return a generator with a model of random weights, in torch."""
    return Generator.from_parts(random_model(kind, architecture, **settings), vocabulary(kind), context=16)


def random_analyzer(kind: Kind = "character", **settings: Any) -> TextAnalyzer:
    """Return the analyzer of a language model with random weights."""
    return analyzer_of(random_model(kind, **settings), vocabulary(kind))


def analyzer_of(model: TextModel, words: Vocabulary, context: int = 16) -> TextAnalyzer:
    """Return the analyzer of a model that is in memory."""
    is_causal = isinstance(model, LanguageModel)
    return TextAnalyzer(
        Reader(
            kind="language" if is_causal else "encoder",
            model=model,
            encode=words.encode,
            texts=words.texts,
            decode=words.decode,
            before=(BOS,),
            after=() if is_causal else (EOS,),
            context=context,
        )
    )


def write_language_model(
    directory: Path, kind: Kind = "character", architecture: str = "language", **settings: Any
) -> Path:
    """Write the model directory of a model with random weights; return it."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary(kind).save(directory)
    model_config = config(kind, architecture, **settings)
    description = ModelDescription(
        architecture=architecture_of(model_config),
        model=model_config,
        trained_length=model_config.context,
        vocabulary_hash=vocabulary(kind).vocabulary_hash,
    )
    save_model(directory, description, weights_of(random_model(kind, architecture, **settings)))
    return directory

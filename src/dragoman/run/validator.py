"""Measures a translation model in the midst of training: loss, what it translates, and what it reports of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dragoman.data.batching import Batch, collate, sorted_batches
from dragoman.data.readers import Pair
from dragoman.device import Precision
from dragoman.evaluation.error_rates import exact_match
from dragoman.evaluation.metrics import TranslationMetrics, bleu_tokenizer_for, translation_metrics
from dragoman.models.seq2seq import Seq2Seq
from dragoman.search.config import SearchConfig
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.translation_objective import mean_loss, token_statistics_of
from dragoman.training.validation import Sample, Validation
from dragoman.translation.translator import Translator

# Greedy and not for long: much faster than a beam of 4, and it ranks models alike.
SEARCH = SearchConfig(beam=1, max_length_factor=1.5, max_length_offset=10)


@dataclass(frozen=True)
class Outputs:
    """What a model made of the validation pairs.

    tokenize   as `translation_metrics` takes it
    """

    pairs: Sequence[Pair]
    translations: Sequence[str]
    tokenize: str

    @cached_property
    def scores(self) -> TranslationMetrics:
        """Return what sacrebleu says, computed once."""
        return translation_metrics(self.translations, [pair.target for pair in self.pairs], tokenize=self.tokenize)


# How each metric of training/metrics.py is computed.
SCORES: Mapping[str, Callable[[Outputs], float]] = {
    "bleu": lambda outputs: outputs.scores.bleu,
    "chrf": lambda outputs: outputs.scores.chrf,
    "exact_match": lambda outputs: exact_match(outputs.translations, outputs.pairs),
}


@dataclass(frozen=True)
class Validator:
    """Validates on held-out pairs; called with a model, returns its figures."""

    pairs: Sequence[Pair]
    tokenizer: Tokenizer
    max_length: int
    batch_tokens: int
    precision: Precision
    target_language: str | None = None

    def __call__(self, model: Seq2Seq) -> Validation:
        """Measure `model`, which is in evaluation mode."""
        device = next(model.parameters()).device
        outputs = Outputs(self.pairs, self._translate(model), bleu_tokenizer_for(self.target_language))
        scores = {name: score(outputs) for name, score in SCORES.items()}
        batches = self._batches()
        samples = [Sample(*pair, output) for pair, output in zip(self.pairs, outputs.translations, strict=True)]
        return Validation(
            loss=mean_loss(model, batches, self.precision, device),
            scores=scores,
            samples=tuple(samples[:: len(samples) // 3 + 1]),
            figures=token_statistics_of(model, batches, self.precision, device),
        )

    def _translate(self, model: Seq2Seq) -> list[str]:
        translator = Translator.from_parts([model], self.tokenizer, max_source_tokens=self.max_length)
        found = translator.translate([pair.source for pair in self.pairs], search=SEARCH)
        return [translation.text for translation in found]

    def _batches(self) -> list[Batch]:
        # Cut to what training sees, so that one endless line does not need endless memory.
        limit = self.max_length
        sources = [ids[:limit] for ids in self.tokenizer.encode_source([pair.source for pair in self.pairs])]
        # From right to left, the beginning of the text, which the beginning of the source belongs to, is written last.
        end = slice(-limit, None) if self.tokenizer.right_to_left else slice(limit)
        targets = [ids[end] for ids in self.tokenizer.encode_target([pair.target for pair in self.pairs])]
        source_lengths = np.array([len(ids) for ids in sources])
        target_lengths = np.array([len(ids) for ids in targets])
        return [
            collate([sources[i] for i in rows], [targets[i] for i in rows])
            for rows in sorted_batches(source_lengths, target_lengths, self.batch_tokens)
        ]

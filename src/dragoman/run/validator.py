"""Validation of a translation model during training: loss, metrics of its translations, and token statistics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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

# Greedy search with a tighter length limit: it is much faster than a beam of 4, and ranks models in the same order.
SEARCH = SearchConfig(beam=1, max_length_factor=1.5, max_length_offset=10)


@dataclass(frozen=True)
class Outputs:
    """Translations of the validation pairs.

    Attributes:
        pairs: the validation pairs.
        translations: the model's translations of their sources.
        tokenize: tokenizer of BLEU, see `translation_metrics`.
    """

    pairs: Sequence[Pair]
    translations: Sequence[str]
    tokenize: str

    @cached_property
    def metrics(self) -> TranslationMetrics:
        """Return the metrics of sacrebleu, which are computed once."""
        return translation_metrics(self.translations, [pair.target for pair in self.pairs], tokenize=self.tokenize)


# Functions that compute the metrics of training/metrics.py.
METRIC_FUNCTIONS: Mapping[str, Callable[[Outputs], float]] = {
    "bleu": lambda outputs: outputs.metrics.bleu,
    "chrf": lambda outputs: outputs.metrics.chrf,
    "exact_match": lambda outputs: exact_match(outputs.translations, outputs.pairs),
}


@dataclass(frozen=True)
class Validator:
    """Validates a model on held-out pairs.

    Attributes:
        pairs: the validation pairs.
        tokenizer: tokenizer of the model.
        max_length: longest source and target in subwords; longer ones are truncated for the loss.
        batch_tokens: size of a batch.
        precision: precision of the loss and of the token statistics.
        target_language: code of the target language, which determines the tokenizer of BLEU.
    """

    pairs: Sequence[Pair]
    tokenizer: Tokenizer
    max_length: int
    batch_tokens: int
    precision: Precision
    target_language: str | None = None

    def __call__(self, model: Seq2Seq) -> Validation:
        """Validate a model, which is in evaluation mode."""
        device = next(model.parameters()).device
        outputs = Outputs(self.pairs, self._translate(model), bleu_tokenizer_for(self.target_language))
        metrics = {name: compute(outputs) for name, compute in METRIC_FUNCTIONS.items()}
        batches = self._batches()
        samples = [Sample(*pair, output) for pair, output in zip(self.pairs, outputs.translations, strict=True)]
        return Validation(
            loss=mean_loss(model, batches, self.precision, device),
            metrics=metrics,
            samples=tuple(samples[:: len(samples) // 3 + 1]),
            token_statistics=token_statistics_of(model, batches, self.precision, device),
        )

    def _translate(self, model: Seq2Seq) -> list[str]:
        translator = Translator.from_parts([model], self.tokenizer, max_source_tokens=self.max_length)
        translations = translator.translate([pair.source for pair in self.pairs], search=self._search)
        return [translation.text for translation in translations]

    @cached_property
    def _search(self) -> SearchConfig:
        """The search, whose length limit is lower for short references of long sources, such as summaries.

        At the beginning of training, a model often does not end its outputs: on documents of thousands of subwords, a
        limit by the length of the source would take longer than the training.
        """
        targets = self.tokenizer.encode_target([pair.target for pair in self.pairs])
        limit = 2 * max(map(len, targets)) + SEARCH.max_length_offset
        sources = self.tokenizer.encode_source([pair.source for pair in self.pairs])
        longest = min(self.max_length, max(map(len, sources)))
        if limit >= SEARCH.maximum_length(longest):
            return SEARCH
        return replace(SEARCH, max_length_factor=0.0, max_length_offset=limit)

    def _batches(self) -> list[Batch]:
        # Truncated to the longest pair in training, so that a very long line does not need too much memory.
        limit = self.max_length
        sources = [ids[:limit] for ids in self.tokenizer.encode_source([pair.source for pair in self.pairs])]
        # Right-to-left targets end with the beginning of the text, which corresponds to the beginning of the source.
        end = slice(-limit, None) if self.tokenizer.right_to_left else slice(limit)
        targets = [ids[end] for ids in self.tokenizer.encode_target([pair.target for pair in self.pairs])]
        source_lengths = np.array([len(ids) for ids in sources])
        target_lengths = np.array([len(ids) for ids in targets])
        return [
            collate([sources[i] for i in rows], [targets[i] for i in rows])
            for rows in sorted_batches(source_lengths, target_lengths, self.batch_tokens)
        ]

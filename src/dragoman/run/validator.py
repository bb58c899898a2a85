"""Measures a model in the midst of training: loss, what it translates, and what it reports of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dragoman.data.batching import Batch, collate, sorted_batches
from dragoman.data.readers import Pair
from dragoman.device import Precision
from dragoman.evaluation.error_rates import exact_match
from dragoman.evaluation.metrics import bleu_tokenizer_for, score_translations
from dragoman.models.figures import Figure, summarise
from dragoman.models.seq2seq import Seq2Seq
from dragoman.search.config import SearchConfig
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.gradients import mean_loss
from dragoman.training.progress import Validation
from dragoman.translation.translator import Translator

# Greedy and not for long: much faster than a beam of 4, and it ranks models alike.
SEARCH = SearchConfig(beam=1, max_length_factor=1.5, max_length_offset=10)


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
        sources = [pair.source for pair in self.pairs]
        references = [pair.target for pair in self.pairs]
        device = next(model.parameters()).device
        translator = Translator.from_parts(
            [model], self.tokenizer, max_source_tokens=self.max_length, batch_tokens=4096
        )
        translations = [translation.text for translation in translator.translate(sources, search=SEARCH)]
        scores = score_translations(translations, references, tokenize=bleu_tokenizer_for(self.target_language))
        batches = self._batches()
        return Validation(
            loss=mean_loss(model, batches, self.precision, device),
            bleu=scores.bleu,
            chrf=scores.chrf,
            exact_match=exact_match(translations, self.pairs),
            samples=tuple(zip(sources, references, translations, strict=True))[:: len(sources) // 3 + 1],
            figures=self._figures(model, batches, device),
        )

    @torch.inference_mode()
    def _figures(self, model: Seq2Seq, batches: Sequence[Batch], device: torch.device) -> dict[str, Figure]:
        with torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            return summarise(
                model.figures(batch.source, batch.source_mask, batch.target_in, batch.target_mask)
                for batch in (batch.to(device) for batch in batches)
            )

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

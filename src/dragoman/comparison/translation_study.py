"""Studies of translation models."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dragoman.comparison.studies import Variant
from dragoman.comparison.study_task import StudyTask
from dragoman.comparison.trial import Measurement, Trial
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.evaluation.metrics import bleu_tokenizer_for, translation_metrics
from dragoman.models.config import ModelConfig, Seq2SeqConfig
from dragoman.models.registry import preset
from dragoman.run.config import read_settings, resolve_without_corpus
from dragoman.run.plan import Plan
from dragoman.run.preparation import VALIDATION_TEXT, validation_sample
from dragoman.run.tasks.translation import translation_config
from dragoman.search.config import SearchConfig
from dragoman.translation.translator import Translator


class TranslationStudy(StudyTask):
    """Studies whose models translate the test set with a beam of 4."""

    # Adam is suitable for all architectures. There are enough validations for a learning curve, but on few pairs, since
    # their time is part of the budget.
    defaults: ClassVar[Mapping[str, Any]] = {
        "schedule": {"kind": "linear", "warmup": 0.1, "peak_learning_rate": 0.001},
        "training": {"optimizer": "adam", "validations": 6},
        "data": {"validation_pairs": 300},
    }
    tokens = "target tokens"
    speed = "decoding tokens/s"
    held_out = "validation pairs"
    metrics = ("bleu", "chrf")
    curves: ClassVar[Mapping[str, str]] = {
        "bleu": "validation BLEU (greedy search)",
        "loss": "validation loss (nats per token)",
    }
    condition = (
        "Decoding is measured with the torch engine for all variants, since the native engine supports only some."
    )

    def check(self, variants: Sequence[Variant], settings: Mapping[str, Any]) -> None:
        """See `StudyTask.check`."""
        if "preset" in settings:
            for variant in variants:
                preset(str(settings["preset"]), 1000, 1000, joint=True, architecture=variant.architecture)
        resolve_without_corpus(read_settings(settings))

    def preset(self, architecture: str, reference: Plan) -> ModelConfig:
        """See `StudyTask.preset`."""
        assert isinstance(reference.model, Seq2SeqConfig)
        return preset(
            reference.config.preset,
            reference.model.source_vocabulary,
            reference.model.target_vocabulary,
            joint=translation_config(reference).tokenizer.joint,
            architecture=architecture,
        )

    def test(self, trial: Trial, plan: Plan) -> Measurement:
        """See `StudyTask.test`."""
        config = translation_config(plan)
        pairs = _test_pairs(trial, plan.validation_size, config.data.validation_pairs)
        translator = Translator.load(trial.directory, engine="torch", device=config.training.device)
        start = time.monotonic()
        translations = translator.translate([pair.source for pair in pairs], search=SearchConfig(beam=4))
        seconds = time.monotonic() - start
        texts = [translation.text for translation in translations]
        metrics = translation_metrics(
            texts,
            [pair.target for pair in pairs],
            tokenize=bleu_tokenizer_for(config.target_language),
        )
        return Measurement(
            metrics={"bleu": metrics.bleu, "chrf": metrics.chrf},
            tokens_per_second=sum(map(len, translator.tokenizer.encode_target(texts))) / seconds,
            method=f"with a beam of 4 ({metrics.signatures['bleu']})",
        )


def _test_pairs(trial: Trial, validation_pairs: int, limit: int) -> list[Pair]:
    if trial.test is not None:
        return list(read_pairs(parse_corpus(trial.test)))
    return validation_sample(trial.directory / "run" / "text" / VALIDATION_TEXT, validation_pairs, limit)

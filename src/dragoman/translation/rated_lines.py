"""Translations of held-out pairs, to which a confidence is fitted and on which it is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from dragoman.errors import CorpusError
from dragoman.evaluation.logistic import fit_logistic
from dragoman.evaluation.metrics import sentence_chrf
from dragoman.translation.confidence import GOOD_CHRF, Confidence, certainty
from dragoman.translation.results import Translation

# With fewer lines, the error of the fit itself is above 3 %.
FEWEST_LINES = 300
# Good lines, and other ones, that a fit needs.
FEWEST_OF_EACH = 20
# Parts of the pairs in the cross-validation.
FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class RatedLines:
    """Translations of held-out sources whose certainty is known.

    Attributes:
        certainties: `certainty` of each.
        good: True for each that is good.
        left_out: number of translations without a certainty.
    """

    certainties: Sequence[float]
    good: Sequence[bool]
    left_out: int

    @classmethod
    def of(cls, translations: Sequence[Translation], references: Sequence[str]) -> Self:
        """Compare translations with their references.

        Raises:
            CorpusError: if the numbers of lines differ or are zero.
        """
        scores = sentence_chrf([translation.text for translation in translations], references)
        known = [
            (value, score >= GOOD_CHRF)
            for translation, score in zip(translations, scores, strict=True)
            if (value := certainty(translation)) is not None
        ]
        return cls(
            certainties=[value for value, _ in known],
            good=[good for _, good in known],
            left_out=len(scores) - len(known),
        )

    def fit(self) -> Confidence:
        """Fit the confidence.

        Raises:
            CorpusError: if there are too few lines, or too few that are good or not good, or if the lines with a higher
                certainty are not the better ones.
        """
        lines, good = len(self.good), sum(self.good)
        if lines < FEWEST_LINES:
            raise CorpusError(f"there are {lines:,} lines to fit the confidence to: give at least {FEWEST_LINES:,}")
        if min(good, lines - good) < FEWEST_OF_EACH:
            raise CorpusError(
                f"{good:,} of {lines:,} lines are good (chrF of at least {GOOD_CHRF:g}): the confidence needs at least "
                f"{FEWEST_OF_EACH} good lines and {FEWEST_OF_EACH} others; give more pairs, or train for longer"
            )
        fitted = fit_logistic(self.certainties, self.good)
        if fitted.slope <= 0:
            raise CorpusError(
                "the lines to which the model gives higher probabilities are not the better ones: check that the pairs "
                "are in the languages of the model"
            )
        return Confidence(slope=fitted.slope, offset=fitted.offset, good_chrf=GOOD_CHRF, lines=lines)

    def cross_validated(self) -> list[float]:
        """Return the probability of each line by a fit to the lines of the other folds; line n is in fold n mod 5.

        Raises:
            CorpusError: as `fit_logistic`, if the lines of the other folds are all good, or none is.
        """
        fits = [
            fit_logistic(
                [value for line, value in enumerate(self.certainties) if line % FOLDS != fold],
                [good for line, good in enumerate(self.good) if line % FOLDS != fold],
            )
            for fold in range(FOLDS)
        ]
        return [fits[line % FOLDS](value) for line, value in enumerate(self.certainties)]

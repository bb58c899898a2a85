"""Greedy search and scores of a batch whose rows stay in order, so that heads can be switched off row by row."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.data.batching import collate
from dragoman.models.inference import inference
from dragoman.models.seq2seq import Seq2Seq
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis
from dragoman.search.sampling import greedy_search
from dragoman.search.scores import score
from dragoman.search.stepper import SingleModel

GREEDY = SearchConfig(beam=1)


def greedy_outputs(model: Seq2Seq, sources: Sequence[Sequence[int]]) -> list[Hypothesis]:
    """Return the output of greedy search for each row of source ids, within the default limits of length."""
    device = next(model.parameters()).device
    batch = collate(sources, [[]] * len(sources)).to(device)
    stepper = SingleModel(model)
    with inference([model]):
        state = stepper.start(batch.source, batch.source_mask)
        lengths = [len(source) for source in sources]
        return greedy_search(stepper, state, lengths, GREEDY, device, keep_rows=True)


def target_log_probabilities(
    model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[float]:
    """Return the log-probability (nats) of each target given its source, EOS included."""
    batch = collate(sources, targets).to(next(model.parameters()).device)
    scores = score(
        [model],
        batch.source,
        batch.source_mask,
        batch.target_in,
        batch.target_out,
        batch.target_mask,
        GREEDY.length_penalty,
    )
    return [score.log_probability for score in scores]

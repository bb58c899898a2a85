"""Compare the training of a self-attention GAN with a plain loop in torch: speed, same shape, in turns.

    dragoman corpus fetch mnist-5k --out corpora
    python benchmarks/images.py corpora/mnist-5k/train

The peer is `plain_sagan.py`: fp32, and the two networks updated in turn, as public implementations do. Both make one
update of both networks from each batch of real pictures. The last line is JSON and begins with the ratio.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import plain_sagan
import torch

from dragoman import __version__
from dragoman.data.batching import Cursor
from dragoman.data.picture_batches import PictureStream, picture_batch, to_unit
from dragoman.data.picture_reading import PictureSet, read_pictures
from dragoman.device import Precision, select_precision, tune_cpu
from dragoman.models.config.sagan import SaganConfig
from dragoman.models.registry import gan_preset
from dragoman.models.sagan import build_sagan
from dragoman.training.adversarial_objective import AdversarialLosses
from dragoman.training.averaging import MovingAverage
from dragoman.training.config import TrainingConfig
from dragoman.training.gradients import accumulate_gradients
from dragoman.training.optimizers.table import OPTIMIZERS


class OurTrainer:
    """Updates of the training loop without its checkpoints and validations."""

    def __init__(self, pictures: PictureSet, config: SaganConfig, batch: int, precision: Precision) -> None:
        self.model = build_sagan(config).train()
        self.losses = AdversarialLosses(latent=config.latent)
        training = TrainingConfig(steps=1, optimizer="two-time-scale", adam_betas=(0.0, 0.9), adam_epsilon=1e-8)
        self.precision = precision
        self.optimizers = OPTIMIZERS["two-time-scale"](self.model, training, precision)
        self.average = MovingAverage(self.model, 0.999)
        self.batches = PictureStream(pictures=pictures, batch_size=batch, seed=1).from_cursor(Cursor())

    def run(self, updates: int) -> None:
        """Make updates."""
        device = torch.device("cpu")
        for step in range(1, updates + 1):
            batch, _ = next(self.batches)
            self.model.zero_grad()
            loss, _ = accumulate_gradients(self.model, [batch], self.losses, self.precision, device)
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), torch.inf)
            self.optimizers.step(1e-4, loss.isfinite() & norm.isfinite())
            self.average.update(self.model, step)


def rate(run: Callable[[int], object], updates: int, batch: int) -> float:
    start = time.perf_counter()
    run(updates)
    return updates * batch / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of pictures with labels")
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--batch", type=int, default=64, help="pictures in a batch")
    parser.add_argument("--updates", type=int, default=3, help="updates in a round")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    tune_cpu()
    pictures = read_pictures(arguments.folder, 32, channels=1, broken="refuse", animated="refuse")
    assert pictures.labels is not None
    config = gan_preset(arguments.preset, 32, 1, pictures.label_names)
    assert config.attention is not None
    shape = plain_sagan.Shape(
        tuple(map(config.width_at, config.map_sizes())), 1, len(config.labels), config.latent, config.attention
    )
    whole = picture_batch(pictures, torch.arange(len(pictures)).numpy())
    assert whole.labels is not None
    plain = plain_sagan.PlainTrainer(shape, to_unit(whole.images), whole.labels, arguments.batch)
    auto = select_precision("auto", torch.device("cpu"))
    runs: dict[str, Callable[[int], object]] = {
        "plain": plain.run,
        "fp32": OurTrainer(pictures, config, arguments.batch, "fp32").run,
    }
    if auto != "fp32":
        runs[auto] = OurTrainer(pictures, config, arguments.batch, auto).run
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(arguments.rounds + 1):
        for name, run in runs.items():
            value = rate(run, arguments.updates, arguments.batch)
            if number:  # the first round is a warm-up
                rates[name].append(value)
    print(f"{config.shape()}, batches of {arguments.batch}")
    print(f"{'':<8}{'pictures/s':>12}{'lowest':>10}{'highest':>10}")
    for name, values in rates.items():
        print(f"{name:<8}{statistics.median(values):>12.1f}{min(values):>10.1f}{max(values):>10.1f}")
    print(
        f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{torch.get_num_threads()} threads"
    )
    ratios = {
        name: round(statistics.median(values) / statistics.median(rates["plain"]), 2) for name, values in rates.items()
    }
    print(json.dumps({"ratio": ratios[auto], "ratio_fp32": ratios["fp32"]}))


if __name__ == "__main__":
    main()

"""Training speed beside the peers: target tokens per second of Dragoman, torch.nn.Transformer and MarianMTModel.

    python benchmarks/training_speed.py corpora/home-assistant/en-de/train.tsv

The same shape (3+3 layers, d_model 256, 4 heads, d_ff 1024, joint vocabulary, tied embeddings), the same batches, the
same loss (label smoothing 0.1) and optimizer (fused AdamW); each system in fp32 and in bf16 autocast, its better
setting counts. Systems take turns in every round, so that a noisy machine disturbs all alike. The last line is JSON,
the ratio to the best peer first.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from dragoman import __version__
from dragoman.data.batching import Batch, BatchingConfig, batches, collate
from dragoman.data.readers import parse_corpus, read_pairs
from dragoman.data.tokenizer import BOS, EOS, PAD, TokenizerConfig, train_tokenizer
from dragoman.layers.positions import sinusoidal_table
from dragoman.models.presets import small
from dragoman.models.transformer import build_transformer
from dragoman.training.loss import label_smoothed_loss

LAYERS, D_MODEL, HEADS, D_FF, DROPOUT = 3, 256, 4, 1024, 0.1
SMOOTHING = 0.1
# A function from a batch to the mean loss, with a model behind it.
Loss = Callable[[Batch], Tensor]


def make_batches(corpus: str, vocabulary: int, tokens: int) -> Iterator[Batch]:
    pairs = list(read_pairs(parse_corpus(corpus)))
    tokenizer = train_tokenizer(pairs, TokenizerConfig(vocabulary_size=vocabulary))
    sources = tokenizer.encode_source([pair.source for pair in pairs])
    targets = tokenizer.encode_target([pair.target for pair in pairs])
    source_lengths = np.array([len(row) for row in sources])
    target_lengths = np.array([len(row) for row in targets])
    for _, rows in batches(source_lengths, target_lengths, BatchingConfig(batch_tokens=tokens), seed=1):
        yield collate([sources[row] for row in rows], [targets[row] for row in rows])


def dragoman_system(vocabulary: int) -> tuple[nn.Module, Loss]:
    model = build_transformer(small(vocabulary, vocabulary, joint=True))

    def loss(batch: Batch) -> Tensor:
        memory = model.encode(batch.source, batch.source_mask)
        states = model.decode_states(batch.target_in, memory, batch.target_mask)
        total, tokens = label_smoothed_loss(states, model.output.weight, batch.target_out, batch.target_mask, SMOOTHING)
        return total / tokens

    return model, loss


def smoothed(logits: Tensor, batch: Batch) -> Tensor:
    # [B, T, V] -> [B*T, V]
    return F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.masked_fill(~batch.target_mask, -100).flatten(),
        label_smoothing=SMOOTHING,
    )


def torch_system(vocabulary: int) -> tuple[nn.Module, Loss]:
    embedding = nn.Embedding(vocabulary, D_MODEL)
    nn.init.normal_(embedding.weight, std=D_MODEL**-0.5)
    transformer = nn.Transformer(
        D_MODEL,
        HEADS,
        LAYERS,
        LAYERS,
        D_FF,
        DROPOUT,
        batch_first=True,
    )
    positions = sinusoidal_table(512, D_MODEL)

    def embed(token: Tensor) -> Tensor:
        x = embedding(token) * D_MODEL**0.5 + positions[: token.shape[1]]
        return F.dropout(x, DROPOUT, training=True)

    def loss(batch: Batch) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(batch.target_in.shape[1], dtype=torch.bool)
        states = transformer(
            embed(batch.source),
            embed(batch.target_in),
            tgt_mask=causal,
            src_key_padding_mask=~batch.source_mask,
            memory_key_padding_mask=~batch.source_mask,
            tgt_is_causal=True,
        )
        return smoothed(states @ embedding.weight.t(), batch)

    return nn.ModuleList([embedding, transformer]), loss


def marian_system(vocabulary: int) -> tuple[nn.Module, Loss]:
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=vocabulary,
            d_model=D_MODEL,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=D_FF,
            decoder_ffn_dim=D_FF,
            dropout=DROPOUT,
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            bos_token_id=BOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            max_position_embeddings=512,
            use_cache=False,
        )
    )

    def loss(batch: Batch) -> Tensor:
        output = model(input_ids=batch.source, attention_mask=batch.source_mask, decoder_input_ids=batch.target_in)
        return smoothed(output.logits, batch)

    return model, loss


SYSTEMS = {"dragoman": dragoman_system, "torch.nn.Transformer": torch_system, "MarianMTModel": marian_system}


def timed_steps(loss: Loss, optimizer: Any, some: list[Batch], bf16: bool) -> tuple[float, float]:
    """Target tokens per second, and the mean loss of the steps."""
    losses = []
    begin = time.perf_counter()
    for batch in some:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            value = loss(batch)
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
    seconds = time.perf_counter() - begin
    return sum(batch.target_tokens for batch in some) / seconds, statistics.mean(losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=5, help="steps of each system in a round")
    parser.add_argument("--rounds", type=int, default=6, help="the first one warms up and is not counted")
    arguments = parser.parse_args()

    stream = make_batches(arguments.corpus, arguments.vocabulary, arguments.batch_tokens)
    contestants: dict[tuple[str, str], tuple[Any, ...]] = {}
    for name, build in SYSTEMS.items():
        for precision in ("fp32", "bf16"):
            torch.manual_seed(1)
            model, loss = build(arguments.vocabulary)
            model.train()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), fused=True)
            contestants[name, precision] = (loss, optimizer)
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in contestants}
    last_loss: dict[tuple[str, str], float] = {}
    for number in range(arguments.rounds):
        some = list(islice(stream, arguments.steps))
        for key, (loss, optimizer) in contestants.items():
            rate, last_loss[key] = timed_steps(loss, optimizer, some, key[1] == "bf16")
            if number > 0:
                rates[key].append(rate)

    print(
        f"dragoman {__version__}, torch {torch.__version__}, transformers {transformers.__version__}, ",
        end="",
    )
    print(f"Python {platform.python_version()}, {torch.get_num_threads()} threads")
    print(f"{'system':<22}{'':6}{'tokens/s':>9}{'lowest':>9}{'highest':>9}{'loss':>8}")
    for (name, precision), measured in rates.items():
        print(
            f"{name:<22}{precision:<6}{statistics.median(measured):>9,.0f}{min(measured):>9,.0f}"
            f"{max(measured):>9,.0f}{last_loss[name, precision]:>8.3f}"
        )
    best = {name: max(statistics.median(rates[name, precision]) for precision in ("fp32", "bf16")) for name in SYSTEMS}
    peer = max((name for name in SYSTEMS if name != "dragoman"), key=lambda name: best[name])
    print(
        json.dumps(
            {
                "ratio_to_best_peer": round(best["dragoman"] / best[peer], 2),
                "best_peer": peer,
                "target_tokens_per_second": {name: round(rate) for name, rate in best.items()},
            }
        )
    )


if __name__ == "__main__":
    main()

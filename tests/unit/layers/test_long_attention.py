"""Local and compressed attention: the fast functions, the formula with a dense mask, and reading in pieces."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.attention import CAUSAL_MASK, AttentionMask, MultiHeadAttention, naive_attention
from dragoman.layers.causal_attention import CausalAttention
from dragoman.layers.compressed_attention import CompressedAttention, CompressedMask, compressed_attention
from dragoman.layers.local_attention import LocalAttention, LocalMask, local_attention
from dragoman.layers.positions import LearnedPositions, RelativePositions, RotaryPositions, SinusoidalPositions
from dragoman.packing import Packed, Padded

D, H = 8, 2


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def randomised(attention: MultiHeadAttention) -> Any:
    with torch.no_grad():
        for parameter in attention.double().parameters():
            parameter.add_(0.3 * random(*parameter.shape, seed=parameter.numel()))
    return attention


KINDS: dict[str, Callable[..., Any]] = {
    "full": lambda **extra: CausalAttention(D, H, **extra),
    "local": lambda **extra: LocalAttention(D, H, 4, **extra),
    "compressed": lambda **extra: CompressedAttention(D, H, 3, **extra),
    "compressed, 1": lambda **extra: CompressedAttention(D, H, 1, **extra),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
LENGTHS = pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9, 13, 150])


def allowed(kind: str, length: int) -> Tensor | None:
    return {
        "none": None,
        "keys": random(2, 1, length, seed=5) < 0.5,
        "pairs": random(2, length, length, seed=6) < 0.5,
        "pairs of one row": random(1, length, length, seed=7) < 0.5,
    }[kind]


ALLOWED = pytest.mark.parametrize("restriction", ["none", "keys", "pairs", "pairs of one row"])


def same_outputs_and_gradients(fast: Any, query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask) -> Tensor:
    """Compare a function with `naive_attention`, and return the output."""
    outcomes: list[list[Any]] = []
    for function in (fast, lambda *inputs: naive_attention(*inputs)[0]):
        leaves = [x.clone().requires_grad_() for x in (query, key, value)]
        output = function(*leaves, mask)
        (output * random(*output.shape, seed=9)).sum().backward()
        outcomes.append([output, *(leaf.grad for leaf in leaves)])
    torch.testing.assert_close(*outcomes)
    detached: Tensor = outcomes[0][0].detach()
    return detached


@LENGTHS
@ALLOWED
@pytest.mark.parametrize("block", [1, 4, 129])
def test_local_attention_is_the_formula(length: int, restriction: str, block: int) -> None:
    query, key, value = random(2, H, length, 4), random(2, H, length, 4, seed=1), random(2, H, length, 3, seed=2)
    mask = LocalMask(allowed(restriction, length), causal=True, block=block)
    output = same_outputs_and_gradients(local_attention, query, key, value, mask)
    nothing = ~mask.dense(length, length, query.device).any(dim=-1)
    assert output.transpose(1, 2)[nothing.expand(2, -1)].eq(0).all()


@LENGTHS
@ALLOWED
@pytest.mark.parametrize("compression", [1, 3, 4])
def test_compressed_attention_is_the_formula(length: int, restriction: str, compression: int) -> None:
    n = length // compression
    query, key, value = random(2, H, length, 4), random(2, H, n, 4, seed=1), random(2, H, n, 3, seed=2)
    tokens = allowed(restriction, length)
    mask = CompressedMask(None if tokens is None else tokens[:, :, :n], causal=True, compression=compression)
    output = same_outputs_and_gradients(compressed_attention, query, key, value, mask)
    assert output[:, :, : compression - 1].eq(0).all()


def test_dense_masks_by_hand() -> None:
    device = torch.device("cpu")
    local = LocalMask(causal=True, block=2).dense(4, 4, device)
    assert local.int().tolist() == [[[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]]
    # The window of key 1 is tokens 3 to 5.
    compressed = CompressedMask(causal=True, compression=3).dense(7, 2, device)
    assert compressed[0, :, 0].int().tolist() == [0, 0, 1, 1, 1, 1, 1]
    assert compressed[0, :, 1].int().tolist() == [0, 0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("widths", [{}, {"d_v": 5, "scale": 0.9}], ids=["usual", "free constants"])
@pytest.mark.parametrize("positions", ["none", "rotary"])
def test_one_block_and_compression_1_are_plain_attention(positions: str, widths: dict[str, Any]) -> None:
    rotation = RotaryPositions(D // H) if positions == "rotary" else None
    plain = randomised(MultiHeadAttention(D, H, rotation=rotation, **widths))
    x = random(3, 10, D)
    expected = plain(x, x, CAUSAL_MASK)
    local = LocalAttention(D, H, 10, rotation=rotation, **widths).double()
    compressed = CompressedAttention(D, H, 1, rotation=rotation, **widths).double()
    for attention in (local, compressed):
        _, unexpected = attention.load_state_dict(plain.state_dict(), strict=False)
        assert not unexpected
        torch.testing.assert_close(attention(x, x, CAUSAL_MASK), expected)


def test_the_kernel_is_a_strided_convolution() -> None:
    """Keys and values are those of torch's convolution; at first, it computes means."""
    attention = CompressedAttention(D, H, 3).double()
    x = random(2, 11, D)
    key, _ = attention.project_memory(x)
    mean = key[:, :, :9].unflatten(2, (3, 3)).mean(dim=3)
    torch.testing.assert_close(attention._compressed(key, attention.key_kernel), mean)
    randomised(attention)
    key, _ = attention.project_memory(x)
    # [D, c*D] -> [D, c, D] -> [D, D, c]
    weight = attention.key_kernel.weight.unflatten(1, (3, D)).transpose(1, 2)
    expected = F.conv1d(attention.key(x).transpose(1, 2), weight, stride=3).transpose(1, 2)
    torch.testing.assert_close(attention._compressed(key, attention.key_kernel), attention._split(expected))


@EACH_KIND
def test_packed_rows_equal_a_padded_batch(kind: str) -> None:
    attention = randomised(KINDS[kind](rotation=RotaryPositions(D // H)))
    mask = torch.arange(9) < torch.tensor([[9], [2], [7]])
    x = random(3, 9, D)
    outputs = []
    for layout in (Packed(mask), Padded(mask)):
        rows = layout.rows(x)
        outputs.append(layout.batch(attention(rows, rows, AttentionMask.past(layout)))[mask])
    torch.testing.assert_close(*outputs)
    # A sentence does not depend on the others.
    alone = x[2:, :7]
    torch.testing.assert_close(attention(alone, alone, CAUSAL_MASK)[0], outputs[0][-7:])


def test_windows_that_a_query_may_attend_to_in_part_are_excluded() -> None:
    document = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1]])
    same = document.unsqueeze(2) == document.unsqueeze(1)
    for mask in (AttentionMask(same, causal=True), AttentionMask(causal=True, documents=document)):
        dense = CompressedAttention(D, H, 3).pattern(mask).dense(9, 3, document.device)[0]
        # Tokens 3 to 5 belong to both documents.
        assert dense.int().tolist() == [[0, 0, 0]] * 2 + [[1, 0, 0]] * 2 + [[0, 0, 0]] * 4 + [[0, 0, 1]]


@pytest.mark.parametrize("length", [5, 8, 150])
@pytest.mark.parametrize("kind", KINDS)
def test_documents_restrict_as_a_mask_of_all_pairs(kind: str, length: int) -> None:
    attention = randomised(KINDS[kind]())
    documents = (random(2, length, seed=3) > 1).cumsum(dim=1)
    same = documents.unsqueeze(2) == documents.unsqueeze(1)
    either = random(2, length, length, seed=4) < 1
    for extra in (None, either):
        x = random(2, length, D)
        mask = AttentionMask(extra, causal=True, documents=documents)
        expected = attention(x, x, AttentionMask(same if extra is None else same & extra, causal=True))
        torch.testing.assert_close(attention(x, x, mask), expected)
    if kind != "full":
        query, mask = random(2, H, length, 4), attention.pattern(AttentionMask(causal=True, documents=documents))
        keys = length // 3 if kind == "compressed" else length
        key, value = random(2, H, keys, 4, seed=1), random(2, H, keys, 3, seed=2)
        same_outputs_and_gradients(attention.core, query, key, value, mask)


@torch.no_grad()
@EACH_KIND
@pytest.mark.parametrize("positions", ["rotary", "relative", "none"])
@pytest.mark.parametrize("pieces", [[1] * 14, [14], [5, 9], [2, 1, 1, 8, 1, 1], [4, 4, 6], [3, 3, 8]], ids=str)
def test_reading_in_pieces_equals_all_at_once(kind: str, positions: str, pieces: list[int]) -> None:
    extra: dict[str, Any] = {"bias": True}
    if positions == "rotary":
        extra["rotation"] = RotaryPositions(D // H)
    elif positions == "relative":
        if kind != "full":
            return
        extra["relative"] = RelativePositions(3, D // H, future=False)
    attention = randomised(KINDS[kind](**extra))
    x = random(3, 14, D)
    expected = attention(x, x, CAUSAL_MASK)
    cache, position, outputs = attention.start(x[:, :0]), 0, []
    for piece in x.split(pieces, dim=1):
        # The order of the rows is changed, and changed back.
        cache = cache.reorder(torch.tensor([2, 0, 1])).reorder(torch.tensor([1, 2, 0]))
        output, cache = attention.read(piece, cache, position)
        outputs.append(output)
        position = position + piece.shape[1]
    torch.testing.assert_close(torch.cat(outputs, dim=1), expected)
    kept = {"full": 14, "local": 2, "compressed": 4, "compressed, 1": 14}[kind]
    assert cache.ends.shape == (3, kept), "a key that is not needed is kept, or a needed one is not"


@torch.no_grad()
@EACH_KIND
@pytest.mark.parametrize("rotary", [False, True])
def test_texts_of_different_lengths_are_read_together(kind: str, rotary: bool) -> None:
    """Each text is its prefix of the batch's first piece, without the padding, and the same later pieces."""
    attention = randomised(KINDS[kind](rotation=RotaryPositions(D // H) if rotary else None))
    lengths = torch.tensor([7, 1, 4, 0, 6])
    first, later = random(5, 7, D), random(5, 9, D, seed=1)
    real = torch.arange(7) < lengths.unsqueeze(1)
    output, cache = attention.read(first, attention.start(first[:, :0]), 0, real)
    outputs = [output]
    position = lengths
    # The second piece has padding too, which is at its end.
    more = torch.tensor([2, 4, 0, 3, 1])
    output, cache = attention.read(later[:, :4], cache, position, torch.arange(4) < more.unsqueeze(1))
    outputs.append(output)
    position = position + more
    for t in range(4, 9):
        output, cache = attention.read(later[:, t : t + 1], cache, position)
        outputs.append(output)
        position = position + 1
    for row, (count, second) in enumerate(zip(lengths.tolist(), more.tolist(), strict=True)):
        text = torch.cat((first[row, :count], later[row, :second], later[row, 4:])).unsqueeze(0)
        pieces = (outputs[0][row, :count], outputs[1][row, :second], *(output[row] for output in outputs[2:]))
        torch.testing.assert_close(torch.cat(pieces), attention(text, text, CAUSAL_MASK)[0])


def test_positions_of_each_token() -> None:
    """The same as consecutive positions."""
    x, position = random(2, 5, D), torch.tensor([[3, 4, 5, 6, 7]])
    for module in (SinusoidalPositions(D), LearnedPositions(9, D)):
        torch.testing.assert_close(module.double()(x, position), module(x, 3))
        rows = torch.stack((position[0], position[0] + 1))
        torch.testing.assert_close(module(x, rows)[1], module(x, 4)[1])
    heads = random(2, H, 5, 4)
    rotary = RotaryPositions(4)
    torch.testing.assert_close(rotary(heads, position), rotary(heads, 3))
    torch.testing.assert_close(rotary(heads, position + 1000), rotary(heads, 1003))
    relative = RelativePositions(2, 4, future=True).double()
    torch.testing.assert_close(relative(heads, torch.arange(9).unsqueeze(0), position), relative(heads, 9, 3))


@pytest.mark.parametrize("kind", ["local", "compressed"])
def test_no_tensor_of_all_pairs_is_made(kind: str) -> None:
    """At 6,000 tokens, a mask of all pairs would have 36 million elements; the largest tensor has 100 thousand."""
    attention = KINDS[kind]()
    largest = 0

    class Sizes(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                largest = max(largest, result.numel())
            return result

    x = torch.randn(1, 6000, D, requires_grad=True)
    with Sizes():
        attention(x, x, CAUSAL_MASK).sum().backward()
    assert 6000 * D <= largest <= 6000 * D * 4

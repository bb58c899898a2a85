"""dragoman evaluate with a language model"""

import json
from pathlib import Path

from dragoman.cli.bars import bar
from dragoman.cli.choices import EngineName, PrecisionName
from dragoman.printing import printable


def evaluate_language_model(
    model: Path,
    text: str,
    *,
    device: str,
    engine: EngineName,
    precision: PrecisionName,
    context: int | None,
    stride: int | None,
    json_output: bool,
) -> None:
    """Measure how well a language model predicts a text; print a table or JSON."""
    from dragoman.data.texts import find_texts, read_texts
    from dragoman.evaluation.tables import aligned
    from dragoman.generation.generator import Generator

    files = find_texts([text])
    generator = Generator.load(model, device=device, engine=engine, precision=precision, context=context)
    with bar(f"evaluating ({generator.engine})") as on_progress:
        evaluation = generator.evaluate(read_texts(files), stride=stride, on_progress=on_progress)
    if json_output:
        print(json.dumps(evaluation.to_json()))
        return
    rows = [
        ("nats per token", f"{evaluation.nats_per_token:.4f}"),
        ("perplexity per token", f"{evaluation.perplexity:,.2f}"),
        ("bits per character", f"{evaluation.bits_per_character:.4f}"),
        ("bits per byte", f"{evaluation.bits_per_byte:.4f}"),
    ]
    print(aligned(rows, names=1))
    documents = f", {evaluation.documents:,} documents" if evaluation.documents > 1 else ""
    size = f"{evaluation.characters:,} characters, {evaluation.bytes:,} bytes{documents}"
    print(f"on {evaluation.tokens:,} tokens ({size}) of {printable(text)}")
    if evaluation.context is None:
        print("context: all of the document, by the state of the model")
    else:
        print(f"context {evaluation.context:,} tokens, stride {evaluation.stride:,}")
    print(f"{evaluation.engine}; {evaluation.tokens_per_second:,.0f} tokens per second")

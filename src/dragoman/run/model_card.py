"""README.md of a model directory: what the model is, for whoever gets it by mail."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.models.description import ModelDescription
from dragoman.printing import printable
from dragoman.training.validation import Validation
from dragoman.version import __version__


def model_card(
    description: ModelDescription,
    *,
    corpora: Sequence[str],
    training_pairs: int,
    parameters: int,
    step: int,
    validation: Validation,
) -> str:
    """Markdown that says what data, which sizes, and how good."""
    model = description.model
    languages = f"{description.source_language or 'source'} to {description.target_language or 'target'}"
    figures = "".join(
        f"| {name} (validation) | mean {figure.mean:.2f}, at most {figure.maximum:g} |\n"
        for name, figure in validation.figures.items()
    )
    order = "| writes | from the last token to the first |\n" if description.right_to_left else ""
    # Names only: a path of the machine that trained is nobody's business.
    names = ", ".join(printable(Path(part).name) for name in corpora for part in name.split(","))
    return f"""# A translation model: {languages}

Made with Dragoman {__version__}. With this directory as MODEL:

    dragoman translate MODEL text.txt

| | |
|---|---|
| trained on | {training_pairs:,} pairs from {names} |
| architecture | {description.architecture}, {model.shape()} |
| parameters | {parameters:,} |
| vocabulary | {model.source_vocabulary:,} source and {model.target_vocabulary:,} target subwords; \
embeddings tied: {model.tied_embeddings} |
{order}| weights of | update {step:,} |
| validation (greedy) | {validation.sentence()} |
{figures}| longest sentence in training | {description.trained_length} subwords; longer input is split |

run/run.json, if it came along, has every setting; the directory run/ is needed only to go on training.
"""

"""The models of a server: one for each language pair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import SettingsError
from dragoman.models.description import load_description, seq2seq_config
from dragoman.serving.language_codes import normalized
from dragoman.serving.lines import Pair

# After a hyphen, a code has a script (Hans), a region (BR, 419), in the case of BCP 47: another part begins the target.
_CODE = "[A-Za-z0-9_]{2,20}(?:-(?:[A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))*"
# MODEL=en-de, MODEL=en-pt-BR
_WITH_PAIR = re.compile(rf"(?P<path>.+)=(?P<source>{_CODE}?)-(?P<target>{_CODE})")


def find_models(arguments: Sequence[str]) -> dict[Pair, Path]:
    """Return the model directory of each language pair; the codes of languages are `normalized`.

    Args:
        arguments: model directories; or MODEL=en-de for one without languages in its config.json, or to use others.

    Raises:
        ModelError: if a directory is not that of a translation model.
        SettingsError: if the languages of a model are unknown, or two models have the same pair.
    """
    models: dict[Pair, Path] = {}
    for argument in arguments:
        # An existing directory may have such a name.
        match = None if Path(argument).is_dir() else _WITH_PAIR.fullmatch(argument)
        path = Path(match["path"] if match else argument)
        description = load_description(path)
        seq2seq_config(description, path)
        source = match["source"] if match else description.source_language
        target = match["target"] if match else description.target_language
        if source is None or target is None:
            raise SettingsError(
                f"the languages of {path} are unknown: write {path}=SOURCE-TARGET, such as {path}=en-de"
            )
        source, target = normalized(source), normalized(target)
        if (source, target) in models:
            raise SettingsError(
                f"{models[source, target]} and {path} both translate {source} to {target}: leave one out, or state "
                f"other languages, such as {path}={source}-{target}2"
            )
        models[source, target] = path
    return models

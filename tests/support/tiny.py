"""The preset `tiny` of the Transformer, with its type."""

from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.registry import preset


def tiny(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """Return the preset `tiny` for vocabularies of these sizes."""
    config = preset("tiny", source_vocabulary, target_vocabulary, joint=joint)
    assert isinstance(config, TransformerConfig)
    return config

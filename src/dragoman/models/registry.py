"""From settings to a model: the one place that knows every architecture."""

from dragoman.models.config import (
    ConvolutionalConfig,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
    UniversalConfig,
)
from dragoman.models.convolutional import build_convolutional
from dragoman.models.recurrent import build_recurrent
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import build_transformer
from dragoman.models.universal import build_universal


def build_model(config: ModelConfig) -> Seq2Seq:
    """Build and initialise the model that `config` describes."""
    match config:
        case TransformerConfig():
            return build_transformer(config)
        case RecurrentConfig():
            return build_recurrent(config)
        case ConvolutionalConfig():
            return build_convolutional(config)
        case UniversalConfig():
            return build_universal(config)

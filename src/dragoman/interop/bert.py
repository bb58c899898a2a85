"""BERT (Devlin et al., 2019) as Hugging Face's transformers stores it: BertModel, BertForMaskedLM and others."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import ModelError
from dragoman.interop.convention import (
    ACTIVATIONS,
    Activation,
    Convention,
    Correspondence,
    both,
    check_representable,
    exported_activation,
    read_supported,
)
from dragoman.models.config import ModelConfig
from dragoman.models.config.masked import MaskedConfig
from dragoman.settings import from_mapping, to_mapping

_PREFIX = "bert."
_HEADS = "cls."
_HEAD = f"{_HEADS}predictions.transform.dense.weight"
_POOLER = f"{_PREFIX}pooler.dense.weight"
_NEXT_SENTENCE = f"{_HEADS}seq_relationship.weight"
# The numbers 0, 1, 2, ..., which older files contain as a tensor; copies of the embeddings and of the bias.
_IGNORED = (
    f"{_PREFIX}embeddings.position_ids",
    f"{_HEADS}predictions.decoder.weight",
    f"{_HEADS}predictions.decoder.bias",
)
# Our names of the parts of a layer -> the names of BERT.
_LAYER = {
    **{f"self_attention.{name}": f"attention.self.{name}" for name in ("query", "key", "value")},
    "self_attention.output": "attention.output.dense",
    "attention_residual.norm": "attention.output.LayerNorm",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.outer": "output.dense",
    "feed_forward_residual.norm": "output.LayerNorm",
}


@dataclass(frozen=True, kw_only=True)
class BERTSettings:
    """The settings in config.json that describe the model, with the defaults of transformers' BertConfig.

    Attributes:
        vocab_size: number of tokens in the vocabulary.
        hidden_size: width of the model.
        num_hidden_layers: number of layers.
        num_attention_heads: number of heads.
        intermediate_size: width of the hidden layer of the feed-forward network.
        hidden_act: activation of the feed-forward network and of the prediction head.
        hidden_dropout_prob: dropout of embeddings and of sub-layer outputs.
        attention_probs_dropout_prob: dropout of attention weights.
        max_position_embeddings: number of positions.
        type_vocab_size: number of segments.
        layer_norm_eps: number added to the variance in layer normalisation.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: Activation = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12


class BERT(Convention):
    """BertModel, with or without pooler, BertForMaskedLM and BertForPreTraining.

    Heads for other tasks (classification) are not imported.
    """

    model_type = "bert"
    architecture = "masked"

    def read_settings(self, settings: Mapping[str, object], names: Collection[str], where: str) -> MaskedConfig:
        """See `Convention.read_settings`; the names show which heads the model has."""
        read_supported(settings, "position_embedding_type", "absolute", where)
        read_supported(settings, "is_decoder", False, where)
        read_supported(settings, "add_cross_attention", False, where)
        # The versions of transformers differ in which bias such a model has.
        read_supported(settings, "tie_word_embeddings", True, where)
        fields = BERTSettings.__dataclass_fields__
        known = {name: value for name, value in settings.items() if name in fields}
        theirs = from_mapping(BERTSettings, known, where, error=ModelError)
        ours = {
            "vocabulary": theirs.vocab_size,
            "layers": theirs.num_hidden_layers,
            "context": theirs.max_position_embeddings,
            "segments": theirs.type_vocab_size,
            "embedding_norm": True,
            "prediction_head": _HEAD in names,
            "pooler": _POOLER in names,
            "next_sentence": _NEXT_SENTENCE in names,
            "d_model": theirs.hidden_size,
            "heads": theirs.num_attention_heads,
            "d_ff": theirs.intermediate_size,
            "dropout": theirs.hidden_dropout_prob,
            "attention_dropout": theirs.attention_probs_dropout_prob,
            "norm_placement": "post",
            "norm_epsilon": theirs.layer_norm_eps,
            "activation": ACTIVATIONS[theirs.hidden_act],
            "positions": "learned",
            "max_positions": theirs.max_position_embeddings,
            "attention_bias": True,
        }
        return from_mapping(MaskedConfig, ours, where, error=ModelError)

    def write_settings(self, config: ModelConfig) -> dict[str, object]:
        """See `Convention.write_settings`."""
        assert isinstance(config, MaskedConfig)
        check_representable(
            config,
            exported=(
                *("vocabulary", "layers", "d_model", "heads", "d_ff", "norm_epsilon"),
                *("max_positions", "segments", "prediction_head", "pooler", "next_sentence"),
                # Training only.
                *("context", "dropout", "attention_dropout", "activation_dropout", "max_distance"),
            ),
            required={
                "d_k": (None, config.d_model // config.heads),
                "activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
                "positions": ("learned",),
                "attention_bias": (True,),
                "norm_placement": ("post",),
                "embedding_norm": (True,),
            },
            models="BERT",
        )
        if not config.segments:
            raise ModelError("BERT cannot represent segments = 0: train a model with at least 1")
        theirs = BERTSettings(
            vocab_size=config.vocabulary,
            hidden_size=config.d_model,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            intermediate_size=config.d_ff,
            hidden_act=exported_activation(config.activation),
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.attention_dropout,
            max_position_embeddings=config.max_positions,
            type_vocab_size=config.segments,
            layer_norm_eps=config.norm_epsilon,
        )
        model = (
            "BertForPreTraining"
            if config.prediction_head and config.next_sentence
            else "BertForMaskedLM"
            if config.prediction_head
            else "BertModel"
        )
        return {"architectures": [model], **to_mapping(theirs)}

    def correspondences(self, config: ModelConfig) -> Iterator[Correspondence]:
        """See `Convention.correspondences`."""
        assert isinstance(config, MaskedConfig)
        for theirs, ours in (("word", "tokens"), ("position", "positions.embedding"), ("token_type", "segments")):
            yield Correspondence(f"{_PREFIX}embeddings.{theirs}_embeddings.weight", (f"embedding.{ours}.weight",))
        yield from both(f"{_PREFIX}embeddings.LayerNorm", "embedding.norm")
        for i in range(config.layers):
            for our_part, their_part in _LAYER.items():
                yield from both(f"{_PREFIX}encoder.layer.{i}.{their_part}", f"encoder.layers.{i}.{our_part}")
        if config.prediction_head:
            yield from both(f"{_HEADS}predictions.transform.dense", "head.dense")
            yield from both(f"{_HEADS}predictions.transform.LayerNorm", "head.norm")
            yield Correspondence(f"{_HEADS}predictions.bias", ("output.bias",))
        if config.pooler:
            yield from both(f"{_PREFIX}pooler.dense", "pooler")
        if config.next_sentence:
            # The first logit is that of "follows" there, and the second one here.
            yield from both(f"{_HEADS}seq_relationship", "next_sentence", upside_down=True)

    def full_name(self, name: str) -> str:
        """See `Convention.full_name`; BertModel's names have no prefix, and older files name the norms differently."""
        for older, present in ((".LayerNorm.gamma", ".LayerNorm.weight"), (".LayerNorm.beta", ".LayerNorm.bias")):
            if name.endswith(older):
                name = name.removesuffix(older) + present
        return name if name.startswith((_PREFIX, _HEADS)) else _PREFIX + name

    def ignored(self, name: str, config: ModelConfig) -> bool:
        """See `Convention.ignored`."""
        return name in _IGNORED

    def check_folder(self, folder: Path) -> None:
        """See `Convention.check_folder`: there are none."""

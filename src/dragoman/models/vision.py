"""The Transformer that reads images (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020).

It is the encoder of "Attention Is All You Need" with patches of an image in place of tokens. Letters: B number of
images, C channels, H height, W width, N number of patches, T = 1 + N positions, D d_model.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.dropout import Dropout
from dragoman.layers.patches import PatchEmbedding
from dragoman.layers.positions import LearnedPositions
from dragoman.models.config.vision import VisionConfig
from dragoman.models.image_classifier import ImageClassifier
from dragoman.models.initialisation import normal, unit_after_scaling, xavier
from dragoman.models.layer_builders import build_encoder_layer, build_final_norm, build_positions
from dragoman.models.seq2seq import AttentionModules
from dragoman.models.transformer import Encoder
from dragoman.packing import dense

# Standard deviation of the initial positions: about as large as the embeddings of patches, so that the first updates
# already distinguish positions. ViT has 0.02, from which few small pictures learn them slowly.
POSITION_STD = 0.5


class ImageEmbedding(nn.Module):
    """z_0 = [x_class; x_1 E; ...; x_N E] + E_pos, then dropout (Dosovitskiy et al. 2020, equation 1).

    Args:
        patches: maps the patches of an image.
        d_model: D, width of the embeddings.
        positions: module that adds positions; None if they are represented in the attention, or not at all.
        dropout: probability of dropping a feature in training.
    """

    def __init__(
        self, patches: PatchEmbedding, d_model: int, positions: LearnedPositions | None, dropout: float
    ) -> None:
        super().__init__()
        self.patches = patches
        self.class_token = nn.Parameter(torch.zeros(d_model))
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B T D"]:
        """Return the embeddings of the class token and of the patches, row by row."""
        # [B, C, H, W] -> [B, N, D]
        x = self.patches(images)
        # [D] -> [B, 1, D]; [B, 1, D] and [B, N, D] -> [B, T, D]
        x = torch.cat((self.class_token.expand(len(x), 1, -1), x), dim=1)
        if self.positions is not None:
            x = self.positions(x)
        if torch.is_autocast_enabled(x.device.type):
            # As in `Embedding`: the residual stream has autocast's type from here on.
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.dropout(x)


class VisionTransformer(ImageClassifier):
    """Patches, a class token, positions, an encoder stack, and a linear map from the state of the class token.

    Args:
        embedding: embedding of images.
        encoder: the layers.
        image_size: height and width of the images in pixels.
        labels: L, the number of labels; 0 for a model that has features only.
    """

    def __init__(self, embedding: ImageEmbedding, encoder: Encoder, *, image_size: int, labels: int) -> None:
        channels, width = embedding.patches.channels, embedding.patches.projection.out_features
        super().__init__(image_size=image_size, channels=channels, width=width, labels=labels, dropout=0.0)
        self.embedding = embedding
        self.encoder = encoder

    @property
    def grid(self) -> int:
        """Number of patches in a row, and in a column."""
        return self.image_size // self.embedding.patches.patch

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """See `ImageClassifier.features`: the state of the class token after the last layer."""
        # [B, T, D] -> [B, D]
        return self.encode(images)[:, 0]

    def encode(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B T D"]:
        """Return the states of the class token and of the patches after the last layer; see `layers`."""
        x, mask = self._embed(images)
        assert mask.queries is not None
        # [B*T, D] -> [B, T, D]
        return mask.queries.batch(self.encoder(x, mask))

    def layers(self, images: Float[Tensor, "B C H W"]) -> tuple[Float[Tensor, "B T D"], ...]:
        """Return the embeddings and the states after each layer, the last ones after the final norm.

        Args:
            images: numbers from -1 to 1.

        Raises:
            CorpusError: the images have another size or number of channels than those of the model.
        """
        x, mask = self._embed(images)
        assert mask.queries is not None
        # [B*T, D] -> [B, T, D]
        return tuple(map(mask.queries.batch, self.encoder.states(x, mask)))

    def _embed(self, images: Float[Tensor, "B C H W"]) -> tuple[Float[Tensor, "B T D"], AttentionMask]:
        """Return the embeddings, and the mask that lets every position attend to all of its image."""
        self.check_images(images)
        x = self.embedding(images)
        # [B, T, D] -> [B, T]
        layout = dense(x[:, :, 0])
        return x, AttentionMask(queries=layout, keys=layout)

    def attentions(self) -> AttentionModules:
        """See `ImageClassifier.attentions`."""
        return AttentionModules(encoder_self=tuple(layer.self_attention.core for layer in self.encoder.layers))

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """See `ImageClassifier.layers_to_compile`."""
        return self.encoder.layers


def build_vision(config: VisionConfig) -> VisionTransformer:
    """Build and initialise the model that `config` describes.

    Matrices are uniform with variance 2 / (fan-in + fan-out) (Glorot and Bengio, 2010, equation 16), as those of the
    paper's own code; the map of the patches is normal with standard deviation (C·P²)^-0.5, so that embeddings are about
    as large as pixels, and positions are normal with standard deviation 0.5. Embeddings of relative positions are those
    of `build_transformer`. Biases and the class token are zero.
    """
    positions = build_positions(config)
    assert positions is None or isinstance(positions, LearnedPositions)
    patches = PatchEmbedding(config.channels, config.patch, config.d_model)
    model = VisionTransformer(
        ImageEmbedding(patches, config.d_model, positions, config.dropout),
        Encoder([build_encoder_layer(config) for _ in range(config.layers)], build_final_norm(config)),
        image_size=config.image_size,
        labels=len(config.labels),
    )
    for module in model.encoder.modules():
        if isinstance(module, nn.Linear):
            xavier(module)
        elif isinstance(module, nn.Embedding):
            unit_after_scaling(module)
    if positions is not None:
        nn.init.normal_(positions.embedding.weight, std=POSITION_STD)
    normal(patches.projection, patches.projection.in_features**-0.5)
    return model

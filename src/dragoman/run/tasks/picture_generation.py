"""The task images: a self-attention GAN is trained to make pictures like those of a folder."""

from dragoman.data.picture_batches import batches_in_order
from dragoman.device import Precision
from dragoman.images.evaluation import JUDGE
from dragoman.models.config.sagan import SaganConfig
from dragoman.run.picture_config import GENERATE, GanRunConfig
from dragoman.run.picture_judge import open_judge
from dragoman.run.picture_validator import METRICS, PictureValidator
from dragoman.run.tasks.pictures import Pictures, PreparedPictures
from dragoman.training.adversarial_objective import AdversarialLosses, AdversarialObjective, mean_discriminator_loss


class PictureGeneration(Pictures):
    """Generation of pictures."""

    name = GENERATE

    def check_labels(self, labels: tuple[str, ...], folder: str) -> None:
        """See `Pictures.check_labels`: any labels, and none, will do."""

    def objective(self, pictures: PreparedPictures, precision: Precision) -> AdversarialObjective:
        """See `Pictures.objective`: the judge of generated pictures is trained first, or loaded."""
        config, model = pictures.config, pictures.model
        assert isinstance(config, GanRunConfig)
        assert isinstance(model, SaganConfig)
        training, validation = pictures.training, pictures.validation
        judge = open_judge(pictures.run / JUDGE, training, validation, config.judging.judge_steps, precision)
        losses = AdversarialLosses(latent=model.latent)
        validator = PictureValidator(
            model,
            judge.features(validation.images),
            judge.features,
            config.judging.pictures,
            pictures.run / "samples",
            lambda network: mean_discriminator_loss(network, losses, batches_in_order(validation, config.batch_tokens)),
        )
        return AdversarialObjective(
            latent=model.latent,
            augmentations=config.augmentations,
            batches=pictures.stream(),
            validator=validator,
            metrics=METRICS,
        )

    def next_commands(self, model: str) -> list[str]:
        """See `Task.next_commands`."""
        return [
            f"dragoman images sample {model} --out grid.png",
            f"dragoman images attention {model} --out attention.html",
            f"dragoman images evaluate {model} TEST",
        ]

"""The settings of a conversion."""

from __future__ import annotations

from albert.settings.fields import OWN, redefined, setting
from albert.settings.text_settings import NormalizationSettings


class ConvertSettings(NormalizationSettings):
    """The format, and information that the files lack; a folder of transformers needs none."""

    to: str = setting(
        "",
        "Format of TO. Default: transformers for a checkpoint, and a checkpoint for a folder of "
        "transformers.",
        choices=("", "transformers", "onnx"),
    )
    albert_config_file: str | None = setting(
        None,
        "Configuration of the model. Default: the run's, or the one in the checkpoint's folder.",
        aliases=("bert_config_file",),
    )
    spm_model_file: str | None = setting(
        None, "SentencePiece model, which is copied as spiece.model. Default: the run's tokenizer."
    )
    vocab_file: str | None = setting(
        None, "WordPiece vocabulary, which is copied as vocab.txt. Default: the run's tokenizer."
    )
    do_lower_case: bool = redefined(NormalizationSettings, "do_lower_case", True, theme=OWN)

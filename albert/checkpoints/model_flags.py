"""--model: a model's files, checkpoint and tokenizer as flags of a program."""

from __future__ import annotations

import os
from typing import Any

from albert.checkpoints.checkpoint_files import resolve_checkpoint
from albert.checkpoints.folder_tokenizer import tokenizer_settings
from albert.checkpoints.model_folder import TOKENIZERS, ModelFolder
from albert.checkpoints.transformers_folder import is_transformers_folder
from albert.core.errors import FlagError
from albert.core.files import content_of
from albert.download.named_model import local_folder, pinned_name
from albert.settings.fields import AnySettings, Settings, argument
from albert.tokenizers.text_rules import Normalization


def with_model(settings: AnySettings) -> AnySettings:
    """Returns settings in which --model has set the model's files and its tokenizer's flags.

    Without --model, a folder of `transformers` in --init_checkpoint sets the tokenizer's flags.
    Raises a `FlagError` if a given flag contradicts the model, and a `UserError` without a model.
    """
    values = vars(settings)
    source, start = "model", values.get("init_checkpoint")
    if values["model"]:
        folder = local_folder(values["model"])
        settings = settings.replaced(model=pinned_name(values["model"], folder))
        own = ModelFolder.find(folder).flags()
    elif start and is_transformers_folder(start):
        source, own = "init_checkpoint", tokenizer_settings(start)
    else:
        return settings
    own = {name: value for name, value in own.items() if name in values}
    check_given(settings, source, own)
    return settings.replaced(given=settings.given | own.keys(), **own)


def check_given(settings: Settings, source: str, own: dict[str, Any]) -> None:
    """Raises a `FlagError` if a given flag contradicts the flags of the model in `source`."""
    values, given = vars(settings), settings.given - {source}
    if own.keys() & TOKENIZERS.keys():
        # A tokenizer of the other kind contradicts the model, too.
        own = {**dict.fromkeys(TOKENIZERS.keys() & given), **own}
    chosen = {name: values[name] for name in own.keys() & given}
    # In their reduced form, in which settings that mean the same are equal.
    ours, theirs = ({**v, **Normalization.of(v)._asdict()} for v in ({**own, **chosen}, own))
    for name in sorted(chosen):
        if not _is_same(name, ours[name], theirs[name]):
            its = f"no --{name}" if own[name] is None else argument(name, own[name])
            raise FlagError(
                f"{argument(name, values[name])} contradicts {argument(source, values[source])}, "
                f"which has {its}; remove one of the two flags"
            )


def _is_same(name: str, given: Any, own: Any) -> bool:
    """Returns whether a flag's value is that of the model; files are compared by content."""
    if name in Normalization._fields or None in (given, own):
        return given == own
    if name == "init_checkpoint":
        given, own = (os.path.realpath(resolve_checkpoint(path)) for path in (given, own))
        return given == own
    return content_of(given) == content_of(own)

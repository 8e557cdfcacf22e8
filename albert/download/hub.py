"""Models on the Hugging Face hub, which `huggingface_hub` downloads to its own cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from albert.core.errors import UserError, optional
from albert.core.files import sha256_of
from albert.core.log import LOG
from albert.core.text import first_line

# Only the files that are needed. Weights of other formats can run code when they are read.
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
_FILES = (
    *_WEIGHTS,
    *("config.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"),
    *("vocab.txt", "spiece.model", "modules.json", "sentence_bert_config.json"),
    "*_Pooling/config.json",
)
# The length of a SHA-256 hash, which is the name of a large file in the cache.
_DIGITS = 64


def download_snapshot(model: str) -> str:
    """Returns the folder of a model's files in the cache, whose name is that of the commit.

    `model` is OWNER/NAME or OWNER/NAME@REVISION. The variables of `huggingface_hub` work as usual,
    such as HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE. Raises a `UserError` if the files
    cannot be had, are damaged, or have no weights in safetensors.
    """
    with optional("huggingface_hub", why=f"{model} is no folder; to read it from the hub, "):
        import huggingface_hub as hub
        from huggingface_hub import constants, errors
        from huggingface_hub.file_download import repo_folder_name

    if not sys.stderr.isatty():
        hub.utils.disable_progress_bars()
    name, _, revision = model.partition("@")
    repository = repo_folder_name(repo_id=name, repo_type="model")
    blobs = Path(constants.HF_HUB_CACHE, repository, "blobs")
    known = {path.name for path in blobs.glob("*")}
    try:
        folder = Path(
            hub.snapshot_download(name, revision=revision or None, allow_patterns=[*_FILES])
        )
    except errors.GatedRepoError as e:
        raise UserError(
            f"{model} is on the hub, but only for those who accept its conditions: do so at "
            f"{constants.ENDPOINT}/{name}, and set HF_TOKEN"
        ) from e
    except errors.RevisionNotFoundError as e:
        raise UserError(f"{name} on the hub has no revision {revision}") from e
    except errors.RepositoryNotFoundError as e:
        raise UserError(
            f"{model} is no folder, and no model on the hub; for a private one, set HF_TOKEN"
        ) from e
    except errors.LocalEntryNotFoundError as e:
        raise UserError(
            f"{model} is no folder, is not in the cache {constants.HF_HUB_CACHE}, and the hub "
            "cannot be reached; download it on a machine with a network: `albert download "
            f"{model}`"
        ) from e
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError, ValueError) as e:
        raise UserError(
            f"{model} cannot be downloaded from the hub ({first_line(e)}); run again to resume"
        ) from e
    new = [p.resolve() for p in folder.rglob("*") if p.resolve().name not in known and p.is_file()]
    for path in new:
        if len(path.name) == _DIGITS and sha256_of(str(path)) != path.name:
            path.unlink()
            raise UserError(
                f"{model}: a file from the hub has another SHA-256 than announced; download again"
            )
    _check(model, folder)
    if new:
        LOG.info("Downloaded %s to %s", model, folder)
    return str(folder)


def _check(model: str, folder: Path) -> None:
    """Raises a `UserError` if a snapshot has no configuration or no weights in safetensors."""
    if not (folder / "config.json").exists():
        raise UserError(f"{model} on the hub has no config.json, so it is no model of transformers")
    if not any(os.path.exists(folder / name) for name in _WEIGHTS[:2]):
        raise UserError(
            f"{model} on the hub has no weights in safetensors, and other formats can run code; "
            "save it with transformers: save_pretrained(..., safe_serialization=True)"
        )

"""The model card: what a folder contains, how the model was trained, and how good it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from albert.checkpoints import transformers_names as names
from albert.convert.source import Source, Variables
from albert.core.version import VERSION

_NAMES = {"albert": "ALBERT", "bert": "BERT"}
_TAGS = {names.SQUAD_V1: "question-answering", names.SQUAD_V2: "question-answering"}
_TAGS |= {names.CLASSIFIER: "text-classification", names.TOKENS: "token-classification"}
# Entries of the scores file that are not scores.
_NO_SCORES = ("global_step", "version", "label_threshold")
_ACTIVATIONS = {
    "gelu_new": "GELU in its tanh form, as in Google's code (`gelu_new`)",
    "gelu": "GELU in its exact form, with the error function (`gelu`)",
}


def model_card(source: Source, variables: Variables, config: Mapping) -> str:
    """Returns the text of `README.md`; `config` is the content of `config.json`."""
    return "\n".join(_lines(source, variables, config)) + "\n"


def _lines(source: Source, variables: Variables, config: Mapping) -> Iterator[str]:
    family, heads = _NAMES[source.family], [p for p in variables.parts if p != names.ENCODER]
    tags = [source.family, *sorted({_TAGS[part] for part in heads if part in _TAGS})]
    yield from ("---", "library_name: transformers", "tags:", *(f"- {tag}" for tag in tags), "---")
    yield f"# {family}: {', '.join(heads) or 'the encoder'}"
    activation = config["hidden_act"]
    step = "" if variables.step is None else f" of step {variables.step}"
    yield (
        f"\nThe weights of a TensorFlow checkpoint{step}, converted by `albert convert` "
        f"{VERSION}. `{config['architectures'][0]}` of `transformers` loads them. They were "
        f"trained with {_ACTIVATIONS.get(activation, f'the activation `{activation}`')}."
    )
    if names.SQUAD_V2 in heads:
        yield (
            "\nThe head of SQuAD 2.0 (`start_logits.*`, `end_logits.*`, `answer_class.*`) has no "
            "counterpart in `transformers`, which loads only the encoder and warns about the rest. "
            "`albert convert` and `--init_checkpoint` read it back."
        )
    numbers = {n: v for n, v in source.scores.items() if _is_number(v) and n not in _NO_SCORES}
    if numbers:
        yield "\n## Scores\n\nOn the development set.\n"
        yield from _table("score", {name: f"{value:.4g}" for name, value in numbers.items()})
    if source.settings:
        version = source.record.get("program_version", "unknown")
        yield f"\n## Training\n\nTrained by version {version}.\n"
        none = dict, type(None)
        plain = {n: v for n, v in source.settings.items() if not isinstance(v, none)}
        yield from _table("setting", {name: f"`{value}`" for name, value in plain.items()})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _table(title: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield from (f"| {title} | |", "|---|---|")
    # A bar would start a new column.
    escaped = {name: value.replace("|", "\\|") for name, value in rows.items()}
    yield from (f"| {name} | {value} |" for name, value in escaped.items())

#!/usr/bin/env bash
# Runs the program of a preset, on the data and the model that it finds by their usual names:
#
#   deploy/preset.sh PRESET MODEL DATA PYTHON [FLAGS-OF-THE-PROGRAM...]
#
# PRESET  one of configs/*.flags, without the ending; its name says which program and which data;
# MODEL   the folder in DATA of a pretrained model, as it was unpacked: albert_base_v2;
# DATA    what download/ has filled: squad/, glue/ or RACE/, and the model;
# PYTHON  the interpreter, which takes this script's place. With `echo` the command is shown, with
#         `true` it is only checked that everything is there.
set -euo pipefail

fail() {
  echo "preset.sh: error: $1" >&2
  exit 1
}

# Prints the first of some paths that exists, with $2 added for the look.
#   first_of WHAT ENDING PATH...
first_of() {
  local what=$1 ending=$2 path
  shift 2
  for path; do
    [[ ! -e $path$ending ]] || { echo "$path" && return; }
  done
  fail "$model has no $what: none of ${*##*/}"
}

[[ ${1-} != --help ]] || { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit; }
(($# >= 4)) || fail "give PRESET MODEL DATA PYTHON, and flags; see --help"
preset=$1 model=$3/$2 data=$3 python=$4
shift 4
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
presets=("$project"/configs/*.flags)
presets=("${presets[@]##*/}")
[[ " ${presets[*]} " == *" $preset.flags "* ]] ||
  fail "$preset: no such preset; there are ${presets[*]%.flags}"

case $preset in
  squad_v1.1* | squad_v2.0*)
    version=${preset:7:3} folder=$data/squad program=run_squad_v${preset:7:1}.py
    flags=("--train_file=$folder/train-v$version.json" "--predict_file=$folder/dev-v$version.json") ;;
  glue_*)
    folder=$data/glue program=run_classifier.py
    flags=("--data_dir=$folder" --do_train --do_eval) ;;
  race*)
    folder=$data/RACE program=run_race.py
    flags=("--data_dir=$data" --do_train --do_eval) ;;
  *) fail "$preset: its name says neither squad_v1.1, squad_v2.0, glue_ nor race" ;;
esac
for place in "$folder" "$model"; do
  [[ -d $place ]] || fail "$place: no such folder; download/ fetches it"
done

config=$(first_of configuration "" "$model"/{albert,bert}_config.json)
vocabulary=$(first_of vocabulary "" "$model"/{30k-clean.model,vocab.txt,vocab_chinese.txt})
checkpoint=$(first_of checkpoint .index "$model"/{model.ckpt-best,bert_model.ckpt})
[[ $vocabulary == *.model ]] && kind=spm_model_file || kind=vocab_file
exec "$python" "$project/$program" "--flagfile=$project/configs/$preset.flags" \
  "--albert_config_file=$config" "--$kind=$vocabulary" "--init_checkpoint=$checkpoint" \
  "${flags[@]}" "$@"

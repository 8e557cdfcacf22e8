#!/usr/bin/env bash
# Runs the program of a preset, on the data and the model under their usual names:
#
#   deploy/preset.sh PRESET MODEL DATA PYTHON [FLAGS-OF-THE-PROGRAM...]
#
# PRESET  a file configs/*.flags, without its extension; its name selects the program and the data;
# MODEL   the folder of a pretrained model in DATA, as unpacked: albert_base_v2; a pretraining
#         ignores it;
# DATA    the folder that download/ has filled: squad/, glue/ or RACE/, and the model; for a
#         pretraining, pretraining/LENGTH/ has the records, train-* and dev-*;
# PYTHON  the interpreter, which replaces this script's process. Pass `echo` to print the command,
#         or `true` to only check that all files exist.
set -euo pipefail

fail() {
  echo "preset.sh: error: $1" >&2
  exit 1
}

# Fails unless a folder exists.
#   need_folder PATH HOW-TO-GET-IT
need_folder() {
  [[ -d $1 ]] || fail "$1: no such folder; $2"
}

# Prints the first of some paths that exists once ENDING is appended to it.
#   first_of WHAT ENDING PATH...
first_of() {
  local what=$1 ending=$2 path
  shift 2
  for path; do
    [[ ! -e $path$ending ]] || { echo "$path" && return; }
  done
  fail "$model has no $what; it needs one of ${*##*/}"
}

[[ ${1-} != --help ]] || { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit; }
(($# >= 4)) || fail "give PRESET MODEL DATA PYTHON, and flags; see --help"
preset=$1 model=$3/$2 data=$3 python=$4
shift 4
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
presets=("$project"/configs/*.flags)
presets=("${presets[@]##*/}")
[[ " ${presets[*]} " == *" $preset.flags "* ]] ||
  fail "$preset: no such preset; choose one of ${presets[*]%.flags}"

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
  pretrain_*)
    folder=$data/pretraining length=512
    [[ $preset != *_phase_1 ]] || length=128
    [[ $preset != *_phase_2 || "$*" == *--init_checkpoint=* ]] ||
      fail "$preset: add --init_checkpoint=FILE, the last checkpoint of phase 1"
    need_folder "$folder" "make the records with \`albert pretraining-data\`"
    exec "$python" "$project/albert" pretrain "--flagfile=$project/configs/$preset.flags" \
      "--input_file=$folder/$length/train-*" "--eval_file=$folder/$length/dev-*" "$@" ;;
  *) fail "$preset: the name must begin with squad_v1.1, squad_v2.0, glue_, race or pretrain_" ;;
esac
for place in "$folder" "$model"; do
  need_folder "$place" "download it with download/"
done

config=$(first_of configuration "" "$model"/{albert,bert}_config.json)
vocabulary=$(first_of vocabulary "" "$model"/{30k-clean.model,vocab.txt,vocab_chinese.txt})
checkpoint=$(first_of checkpoint .index "$model"/{model.ckpt-best,bert_model.ckpt})
[[ $vocabulary == *.model ]] && kind=spm_model_file || kind=vocab_file
exec "$python" "$project/$program" "--flagfile=$project/configs/$preset.flags" \
  "--albert_config_file=$config" "--$kind=$vocabulary" "--init_checkpoint=$checkpoint" \
  "${flags[@]}" "$@"

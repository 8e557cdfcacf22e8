#!/usr/bin/env bash
# Starts a command as the workers of one job, under Open MPI; --help says how.
set -euo pipefail

readonly NAME=${0##*/}
FOLDER=$(dirname "${BASH_SOURCE[0]}")
readonly FOLDER
# What workers on other hosts need of this environment; those on this host have all of it.
readonly PASSED='^(PATH|LD_LIBRARY_PATH|PYTHONPATH|GC_KERNEL_PATH|(TF|HOROVOD|HABANA|HCCL|NCCL|OMP)_.*)$'

workers='' hosts='' log_dir=logs sysroot='' dry_run=false
grace=${MPIRUN_GRACE:-120}
passed=()

print_help() {
  cat <<END
usage: deploy/mpirun.sh [OPTION...] [--] COMMAND [ARGUMENT...]

Runs COMMAND once a worker with mpirun, each worker on cores of its own:

  deploy/mpirun.sh -n 2 .venv/bin/python run_squad_v1.py ... --use_horovod=true

COMMAND needs --use_horovod=true itself: the programs say so if it is missing.

  -n WORKERS      number of workers; default: one a Gaudi card
  -H HOST:N,...   hosts with N workers each, all like this one, reached by ssh;
                  default: this host
  -x NAME[=VALUE] also pass this variable to workers on other hosts. Passed anyway, if
                  set: PATH, LD_LIBRARY_PATH, PYTHONPATH, GC_KERNEL_PATH and all that
                  begin with TF_ (such as TF_BF16_CONVERSION), HOROVOD_, HABANA_, HCCL_,
                  NCCL_ or OMP_
  -l FOLDER       folder of the log, mpirun-DATE-TIME-PID.log; default: logs
  -t SECONDS      how long the workers may take to end after a signal, to write a
                  checkpoint; default: MPIRUN_GRACE, or 120
  --dry-run       print the mpirun command and run nothing
  --sysroot DIR   with --dry-run: read DIR/dev, DIR/proc and DIR/sys, the copy of another
                  machine's, and print the command for that machine

Of C cores a socket a worker gets C / (workers on the socket): --map-by socket:PE=7 for 8
workers on 2 sockets of 28. If there are more workers than cores, they share. Where there
are Gaudi cards, every worker must have one that is in operation.

mpirun is the one in PATH, or else that of .venv (make horovod). What else Open MPI should
do is told by variables, as ever: OMPI_MCA_btl_tcp_if_include=eth0 for a certain network.

After SIGTERM, SIGINT (Ctrl-C) or SIGHUP the workers get SIGUSR1, on all hosts, by which a
training stops. A second signal, or the end of -t, kills them.

Exit code: that of the first worker that failed; 143, 130 or 129 after SIGTERM, SIGINT or
SIGHUP; 2 for a wrong option; 1 for the rest.
END
}

fail() {  # MESSAGE [EXIT_CODE]
  echo "$NAME: error: $1" >&2
  exit "${2:-1}"
}

parse() {
  while (($#)); do
    case $1 in
      -h | --help) print_help; exit ;;
      --dry-run) dry_run=true; shift; continue ;;
      --) shift; break ;;
      -n | -H | -x | -l | -t | --sysroot) (($# > 1)) || fail "$1 needs a value; see --help" 2 ;;
      -*) fail "unknown option $1; see --help" 2 ;;
      *) break ;;
    esac
    case $1 in
      -n) workers=$2 ;;
      -H) hosts=$2 ;;
      -x) passed+=(-x "$2") ;;
      -l) log_dir=$2 ;;
      -t) grace=$2 ;;
      --sysroot) sysroot=${2%/} ;;
    esac
    shift 2
  done
  command=("$@")
}

check_options() {
  ((${#command[@]})) || fail "no command; see --help" 2
  # No more digits than the arithmetic of the shell takes.
  [[ $workers =~ ^([1-9][0-9]{0,5})?$ ]] || fail "-n $workers: not a number of workers" 2
  [[ $hosts =~ ^([^:,]+:[1-9][0-9]{0,5}(,|$))*$ ]] || fail "-H $hosts: not HOST:N,HOST:N,..." 2
  [[ $grace =~ ^(0|[1-9][0-9]{0,5})$ ]] || fail "-t $grace: not a number of seconds" 2
  [[ -z $sysroot ]] || $dry_run || fail "--sysroot is for --dry-run" 2
  [[ -z $sysroot || -d $sysroot ]] || fail "--sysroot $sysroot: no such folder" 2
}

find_mpirun() {
  command -v mpirun ||
    realpath -e "$FOLDER/../.venv/bin/mpirun" 2>/dev/null ||
    fail "no mpirun in PATH or .venv/bin; \`make horovod\` installs it"
}

# Prints "workers in all, at most on one host" for the hosts of -H.
count_slots() {
  tr ',' '\n' <<<"$hosts" | awk -F: '{
    sum += $2
    if ((slots[$1] += $2) > most) most = slots[$1]
  } END { print sum, most }'
}

# Prints a line a Gaudi card: its device and its state. Newer versions of the driver use the
# kernel's folder for accelerators of all makers.
list_cards() {
  local device about
  for device in "$sysroot"/dev/accel/accel[0-9]* "$sysroot"/dev/hl[0-9]*; do
    [[ -e $device ]] || continue
    about=$sysroot/sys/class/habanalabs/${device##*/}
    if [[ $device == */accel/* ]]; then
      about=$sysroot/sys/class/accel/${device##*/}/device
      grep -qs GAUDI "$about/device_type" || continue
    fi
    echo "${device#"$sysroot"} $(cat "$about/status" 2>/dev/null || echo operational)"
  done
}

# Prints a line a socket: how many physical cores of it this process may use.
list_cores() {
  local allowed
  allowed=$(awk '/^Cpus_allowed_list:/ { print $2 }' "$sysroot/proc/self/status")
  lscpu --sysroot "$sysroot/" --parse=CPU,CORE,SOCKET | awk -F, -v allowed="$allowed" '
    BEGIN {
      ranges = split(allowed, range)
      for (i = 1; i <= ranges; i++) {
        ends = split(range[i], end, "-")
        for (cpu = end[1]; cpu <= end[ends]; cpu++) usable[cpu + 0] = 1
      }
    }
    !/^#/ && ($1 + 0) in usable && !seen[$3, $2]++ { cores[$3]++ }
    END { for (socket in cores) print cores[socket] }'
}

check_cards() {  # WORKERS_A_HOST CARDS
  local ready others
  ready=$(grep -ic ' operational$' <<<"$2" || true)
  others=$(grep -iv ' operational$' <<<"$2" | paste -sd ';' || true)
  (($1 <= ready)) ||
    fail "$1 workers need $1 Gaudi cards in operation, this host has $ready${others:+ ($others)}"
}

# Prints the options of mpirun that place so many workers on a host's cores.
place() {  # WORKERS_A_HOST
  local cores sockets fewest each
  cores=$(list_cores)
  sockets=$(wc -l <<<"$cores")
  fewest=$(sort -n <<<"$cores" | head -n 1)
  each=$((fewest / (($1 + sockets - 1) / sockets)))
  if ((each)); then
    echo "--bind-to core --map-by socket:PE=$each"
  else
    echo "$NAME: $1 workers share $(paste -sd + <<<"$cores") cores" >&2
    echo "--oversubscribe --bind-to core:overload-allowed --map-by socket:PE=1"
  fi
}

# Sets `workers` if -n has not, and `most`, the workers on one host.
count_workers() {  # CARDS
  local slots=''
  if [[ -n $hosts ]]; then
    read -r slots most <<<"$(count_slots)"
  elif [[ -n $1 ]]; then
    slots=$(wc -l <<<"$1")
  fi
  workers=${workers:-$slots}
  [[ -n $workers ]] || fail "no Gaudi card here: say how many workers, -n WORKERS" 2
  [[ -z $hosts ]] || ((workers <= slots)) || fail "-n $workers: -H has room for $slots" 2
  if [[ -z $hosts ]] || ((workers < most)); then most=$workers; fi
}

# mpirun itself would say it at length, once a worker.
check_program() {
  local script=${command[1]:-}
  command -v "${command[0]}" >/dev/null || fail "${command[0]}: no such program"
  [[ $script != *.py || -e $script ]] || fail "$script: no such file"
}

# Sets `job`, the command that starts the workers.
compose() {
  local mpirun cards most placing name
  mpirun=$(find_mpirun)
  cards=$(list_cards)
  count_workers "$cards"
  [[ -z $cards ]] || check_cards "$most" "$cards"
  placing=$(place "$most")
  job=("$mpirun" --tag-output --merge-stderr-to-stdout)
  ((EUID)) || job+=(--allow-run-as-root)
  if [[ -n $hosts ]]; then
    # A host that is gone is noticed after 10 + 3 x 5 seconds, not after eight minutes.
    job+=(-H "$hosts" --mca oob_tcp_keepalive_time 10 --mca oob_tcp_keepalive_intvl 5
      --mca oob_tcp_keepalive_probes 3)
  fi
  # shellcheck disable=SC2206  # words are what is wanted
  job+=($placing -np "$workers")
  for name in $(compgen -e | grep -E "$PASSED"); do
    job+=(-x "$name")
  done
  job+=(${passed[@]+"${passed[@]}"} "${command[@]}")
}

# Tells the workers to stop; a second signal ends them at once.
# shellcheck disable=SC2329  # a trap calls it
stop() {  # SIGNAL NUMBER
  if [[ -z $stopped ]]; then
    stopped=$((128 + $2)) deadline=$((SECONDS + grace))
    echo "$NAME: SIG$1: the workers have $grace seconds to end; a second signal kills them"
    # mpirun passes this one on at once, to all hosts. At SIGTERM it kills a second later; the time
    # that odls_base_sigkill_timeout gives passes before SIGTERM, too, and if all have ended already.
    kill -USR1 "$pid"
  else
    deadline=$SECONDS
  fi
}

# Runs `job` to its end and exits with its code.
run_job() {
  local pid stopped='' deadline=0 code
  # In a session of its own: else Ctrl-C would reach mpirun besides what is passed on, and be the
  # second signal. Not without this shell: mpirun ends the workers if it is killed.
  setsid setpriv --pdeathsig TERM "${job[@]}" <&0 &
  pid=$!
  trap 'stop TERM 15' TERM
  trap 'stop INT 2' INT
  trap 'stop HUP 1' HUP
  # A signal interrupts it.
  while :; do
    wait "$pid" && code=0 || code=$?
    kill -0 "$pid" 2>/dev/null || break
    while ((SECONDS < deadline)) && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    kill -TERM "$pid" 2>/dev/null || true
  done
  # Where it has ended while a signal was dealt with, that hides its code; bash may have lost it (-1).
  wait "$pid" && ended=0 || ended=$?
  ((ended < 0)) || code=$ended
  # What mpirun says of workers that it has killed, or that SIGUSR1 has ended, is not what this got.
  if [[ -n $stopped ]] && { ((code && SECONDS >= deadline)) || ((code == 143 || code == 138)); }; then
    code=$stopped
  fi
  exit "$code"
}

main() {
  local job line log
  parse "$@"
  check_options
  compose
  printf -v line '%q ' "${job[@]}"
  if $dry_run; then
    echo "${line% }"
    exit
  fi
  check_program
  log=$log_dir/mpirun-$(date +%Y%m%d-%H%M%S)-$$.log
  { mkdir -p "$log_dir" && : >"$log"; } 2>/dev/null ||
    fail "-l $log_dir: no log can be written there"
  # tee outlives signals and a reader that goes away, to record how the job ended.
  exec > >(trap '' TERM INT HUP; exec tee -p "$log") 2>&1
  echo "$NAME: log $log"
  echo "$NAME: ${line% }"
  run_job
}

main "$@"

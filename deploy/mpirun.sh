#!/usr/bin/env bash
# Starts a command as the workers of one job, under Open MPI; --help has the usage.
set -euo pipefail

readonly NAME=${0##*/}
FOLDER=$(dirname "${BASH_SOURCE[0]}")
readonly FOLDER
# Variables that mpirun passes to other hosts; workers on this host inherit all.
readonly PASSED='^(PATH|LD_LIBRARY_PATH|PYTHONPATH|GC_KERNEL_PATH|(TF|HOROVOD|HABANA|HCCL|NCCL|OMP)_.*)$'

workers='' hosts='' log_dir=logs sysroot='' dry_run=false
grace=${MPIRUN_GRACE:-120}
passed=()

print_help() {
  cat <<END
usage: deploy/mpirun.sh [OPTION...] [--] COMMAND [ARGUMENT...]

Runs COMMAND once per worker with mpirun, and binds each worker to its own cores:

  deploy/mpirun.sh -n 2 .venv/bin/python run_squad_v1.py ... --use_horovod=true

COMMAND itself needs --use_horovod=true; without it, the programs end with an error.

  -n WORKERS      number of workers; default: one per Gaudi card
  -H HOST:N,...   hosts with N workers each, identical to this one and reached by ssh;
                  default: this host
  -x NAME[=VALUE] also pass this variable to workers on other hosts. If set, these are
                  always passed: PATH, LD_LIBRARY_PATH, PYTHONPATH, GC_KERNEL_PATH and all
                  that begin with TF_ (such as TF_BF16_CONVERSION), HOROVOD_, HABANA_,
                  HCCL_, NCCL_ or OMP_
  -l FOLDER       folder of the log, mpirun-DATE-TIME-PID.log; default: logs
  -t SECONDS      time that the workers have to end after a signal, to write a
                  checkpoint; default: MPIRUN_GRACE, or 120
  --dry-run       print the mpirun command and do not run it
  --sysroot DIR   with --dry-run: print the command for another machine, from a copy of
                  its /dev, /proc and /sys in DIR

On a socket with C cores, each worker gets C / (workers on the socket) cores: --map-by
socket:PE=7 for 8 workers on 2 sockets of 28. If there are more workers than cores, they
share them. On a host with Gaudi cards, every worker needs an operational one.

The script runs the mpirun in PATH, or otherwise the one in .venv (make horovod). Set other
options of Open MPI by its variables: OMPI_MCA_btl_tcp_if_include=eth0 selects a network.

After SIGTERM, SIGINT (Ctrl-C) or SIGHUP, the workers on all hosts get SIGUSR1, which stops
a training. A second signal, or the end of -t, kills them.

Exit code: that of the first worker that failed; 143, 130 or 129 after SIGTERM, SIGINT or
SIGHUP; 2 for a wrong option; 1 for any other error.
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
  # The shell's arithmetic limits the number of digits.
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

# Prints, for the hosts of -H, the number of workers and the largest number on one host.
count_slots() {
  tr ',' '\n' <<<"$hosts" | awk -F: '{
    sum += $2
    if ((slots[$1] += $2) > most) most = slots[$1]
  } END { print sum, most }'
}

# Prints one line per Gaudi card: its device and its state. Newer drivers use the kernel's folder
# for accelerators of all makers.
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

# Prints one line per socket: the number of its physical cores that this process may use.
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
    fail "$1 workers need $1 operational Gaudi cards; this host has $ready${others:+ ($others)}"
}

# Prints the options of mpirun that bind this many workers to a host's cores.
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
  [[ -n $workers ]] || fail "no Gaudi card found; give the number of workers with -n WORKERS" 2
  [[ -z $hosts ]] || ((workers <= slots)) || fail "-n $workers: -H has room for $slots" 2
  if [[ -z $hosts ]] || ((workers < most)); then most=$workers; fi
}

# mpirun would report these at length, once per worker.
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
  $dry_run || check_program
  placing=$(place "$most")
  job=("$mpirun" --tag-output --merge-stderr-to-stdout)
  ((EUID)) || job+=(--allow-run-as-root)
  if [[ -n $hosts ]]; then
    # Detects a lost host after 10 + 3 x 5 seconds instead of eight minutes.
    job+=(-H "$hosts" --mca oob_tcp_keepalive_time 10 --mca oob_tcp_keepalive_intvl 5
      --mca oob_tcp_keepalive_probes 3)
  fi
  # shellcheck disable=SC2206  # the options must be split into words
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
    # mpirun passes SIGUSR1 on to all hosts immediately. After SIGTERM it would kill the workers a
    # second later. odls_base_sigkill_timeout extends that time, but also the wait before SIGTERM,
    # and mpirun then waits even if all workers have ended.
    kill -USR1 "$pid"
  else
    deadline=$SECONDS
  fi
}

# bash may lose the end of a process while a trap runs, and then never reaps it.
is_running() {  # PID
  local state
  { read -r state <"/proc/$1/stat"; } 2>/dev/null && [[ $state != *') Z '* ]]
}

# Runs `job` to its end and exits with its code.
run_job() {
  local pid stopped='' deadline=0 code
  # In a separate session: otherwise mpirun would get Ctrl-C in addition to the SIGUSR1 that `stop`
  # sends, as a second signal. mpirun ends with this shell, and ends the workers if it is killed.
  setsid setpriv --pdeathsig TERM "${job[@]}" <&0 &
  pid=$!
  trap 'stop TERM 15' TERM
  trap 'stop INT 2' INT
  trap 'stop HUP 1' HUP
  # A signal interrupts `wait`.
  while :; do
    wait "$pid" && code=0 || code=$?
    is_running "$pid" || break
    while ((SECONDS < deadline)) && is_running "$pid"; do sleep 0.1; done
    kill -TERM "$pid" 2>/dev/null || true
  done
  # If mpirun ended while the trap ran, `code` is not its exit code; bash may have lost that (-1).
  wait "$pid" && ended=0 || ended=$?
  ((ended < 0)) || code=$ended
  # For workers that it killed or SIGUSR1 ended, mpirun's code does not tell which signal came here.
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
  log=$log_dir/mpirun-$(date +%Y%m%d-%H%M%S)-$$.log
  { mkdir -p "$log_dir" && : >"$log"; } 2>/dev/null ||
    fail "-l $log_dir: cannot write a log there; name another folder"
  # tee survives signals and a closed pipe, so the log records how the job ended.
  exec > >(trap '' TERM INT HUP; exec tee -p "$log") 2>&1
  echo "$NAME: log $log"
  echo "$NAME: ${line% }"
  run_job
}

main "$@"

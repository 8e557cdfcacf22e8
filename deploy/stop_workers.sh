#!/usr/bin/env bash
# Sends a signal to the workers that Open MPI has started on this host and waits until they have
# ended; what has not after SECONDS is killed. Exit code 1 if there were none, or some were killed.
#
#   deploy/stop_workers.sh SIGNAL SECONDS [PID_OF_MPIRUN]
#
# Without PID_OF_MPIRUN: those of all. The signal goes to the workers because mpirun (4.1) is no
# good messenger: at a signal it waits odls_base_sigkill_timeout seconds before it passes it on, and
# as long again before it kills, however soon they end; and so it does when a worker has failed.
# Those of one host are enough, as all workers of a training stop at the same step.
set -euo pipefail

(($# == 2 || $# == 3)) || { echo "usage: ${0##*/} SIGNAL SECONDS [PID_OF_MPIRUN]" >&2; exit 2; }
signal=$1 seconds=$2 mpirun=${3:-}

# Prints the processes that Open MPI's daemons (mpirun is one) have started here, but for those that
# start other daemons. Each leads a process group, which a signal is for: a worker may be a shell.
list_workers() {
  local file line parent name
  for file in /proc/[0-9]*/stat; do
    { read -r line <"$file"; } 2>/dev/null || continue
    name=${line#*(}
    case ${name%)*} in ssh | srun | orted*) continue ;; esac
    read -r _ parent _ <<<"${line##*) }"
    if [[ -n $mpirun ]]; then
      ((parent == mpirun)) || continue
    else
      read -r name 2>/dev/null <"/proc/$parent/comm" || continue
      # By whatever name: that of PyPI's is orterun_wrapper.
      [[ $name =~ ^(orted|orterun|mpirun) ]] || continue
    fi
    echo "${line%% *}"
  done
}

mapfile -t workers < <(list_workers)
((${#workers[@]})) || exit 1
for worker in "${workers[@]}"; do
  kill -s "$signal" -- "-$worker" 2>/dev/null || true
done
deadline=$((SECONDS + seconds))
for worker in "${workers[@]}"; do
  while kill -0 "$worker" 2>/dev/null; do
    if ((SECONDS >= deadline)); then
      kill -s KILL -- "${workers[@]/#/-}" 2>/dev/null || true
      exit 1
    fi
    sleep 0.1
  done
done

#!/bin/sh
# One experiment on several boards of a machine: the first fills the compile cache, then all measure, on 16 cores each.
#   OUT=folder sh benchmarks/speed/boards.sh inject.py SECONDS "0 1 2 3" --seconds 4 --kernel-levels 2 --host-levels 5,10
# misses.py and builds.py --show read the files; inject.py --brief keeps them small.
set -u
export PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore
script=$1 seconds=$2 boards=$3
shift 3
began=$(date +%s)
mkdir -p "$OUT"
cores=${CORES:-16}
cache=${CACHE:-/tmp/speed-inductor-cache}

measure() {
    board=$1
    shift
    CUDA_VISIBLE_DEVICES=$board taskset -c "$((cores * board))-$((cores * board + cores - 1))" \
        python3 "benchmarks/speed/$script" --out "$OUT/board-$board.json" --cache "$cache" --seed "$board" "$@" \
        >>"$OUT/board-$board.log" 2>&1
}

measure "${boards%% *}" "$@" --processes 0 --prewarm 4 --budget-seconds "$seconds"
left=$((seconds - $(date +%s) + began))
for board in $boards; do
    measure "$board" "$@" --processes 99 --prewarm 0 --budget-seconds "$left" &
done
wait
tail -n 1 "$OUT"/board-*.log

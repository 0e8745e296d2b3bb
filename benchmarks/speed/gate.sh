#!/bin/sh
# The whole speed suite on a machine: fill the compile cache, record baselines, gate, gate with one model slowed.
#   OUT=folder CUDA_VISIBLE_DEVICES=0 sh benchmarks/speed/gate.sh fill | record NAME | gate NAME | slow CASE:SIDE:MICROSECONDS
# On a machine with several devices, run it once for each, on cores of its own (taskset); they share cache and baselines.
set -u
export PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore
cache=${CACHE:-/tmp/speed-inductor-cache}
baselines=${BASELINES:-baselines}

cases() {
    PYTHONPATH=. python3 -c "from suites.speed.cases import CASES; print(*CASES, sep='\n')"
}

suite() {
    name=$1
    shift
    mkdir -p "$OUT/samples-$name"
    PYTEST_TORCH_COMPILE_SAMPLES=$OUT/samples-$name python3 -m pytest suites/speed --compile-cache="$cache" \
        --compile-baselines="$baselines" -p no:cacheprovider --benchmark-columns=median --tb=short "$@" >"$OUT/$name.log" 2>&1
    echo "$name: exit status $?, $(tail -1 "$OUT/$name.log")"
    grep -E "^suites/.*(regressed|improved|inconclusive|no-baseline) |where:" "$OUT/$name.log" | cut -c1-210
}

case $1 in
fill)
    for name in $(cases); do
        python3 -m pytest "suites/speed/test_speed.py::test_speed[$name]" --compile-cache="$cache" \
            -p no:cacheprovider -q >"$OUT/fill-$name.log" 2>&1 &
    done
    wait
    ;;
record) suite "$2" --compile-perf=track --compile-update-baselines ;;
gate) suite "$2" --compile-perf=gate ;;
slow)
    export SLOW_CASE=$2
    suite "slow-${SLOW_CASE%%:*}" --compile-perf=gate
    ;;
esac

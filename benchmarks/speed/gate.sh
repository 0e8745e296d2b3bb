#!/bin/sh
# The whole speed suite on a fresh machine: fill the compile cache, record what has no baseline yet, gate.
#   OUT=folder sh benchmarks/speed/gate.sh record|gate NAME|slow CASE:SIDE:MICROSECONDS [pytest arguments]
set -u
export PYTHONPATH=src PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore PYTEST_PLUGINS=pytest_torch_compile.plugin
cache=/tmp/speed-inductor-cache
baselines=/tmp/speed-baselines

run_gate() {
    name=$1
    shift
    mkdir -p "/tmp/samples-$name"
    PYTEST_TORCH_COMPILE_SAMPLES=/tmp/samples-$name PYTHONPATH=$PWD/src timeout 330 \
        python3 -m pytest suites/speed -m gpu --compile-perf=gate --compile-cache="$cache" \
        --compile-baselines="$baselines" -p no:cacheprovider --benchmark-columns=median --tb=short "$@" \
        >"$OUT/$name.log" 2>&1
    echo "$name: exit status $?"
    grep -E "^suites/.*(pass|regressed|improved|inconclusive|no-baseline) |passed|failed|where:" "$OUT/$name.log" | cut -c1-210
    cat "/tmp/samples-$name"/*.json >"$OUT/$name-samples.jsonl"
}

case $1 in
record)
    python3 benchmarks/speed/aa.py --cases all --processes 0 --prewarm 6
    python3 benchmarks/speed/aa.py --cases rest --prewarm 0 --processes "${RUNS:-5}" --seed 5 --budget-seconds 175 \
        --out /tmp/aa-rest.json
    cp /tmp/aa-rest.json "$OUT/aa-rest.json"
    PYTHONPATH=src:benchmarks/speed python3 benchmarks/speed/to_baselines.py benchmarks/speed/data/aa-*.json \
        /tmp/aa-rest.json --baselines "$baselines"
    cp "$baselines"/*/speed.json "$OUT/"
    ;;
gate)
    shift
    run_gate "$@"
    ;;
slow)
    export SLOW_CASE=$2
    shift 2
    run_gate "slow-${SLOW_CASE%%:*}" "$@"
    ;;
esac

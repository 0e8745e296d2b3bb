#!/bin/sh
# The GPU part of the captioning, training, modes, optimizers and regional suites on a fresh machine, within SECONDS_LEFT:
#   OUT=folder sh benchmarks/coverage/h200.sh
# 1. fill the compile cache and run the correctness tests, 2. record speed baselines in fresh processes, 3. whole captioner.
# Every finished test leaves its sample at once, so that a process that runs out of time loses one test only.
# WHICH="gpu" adds max-autotune and the cold start, which take minutes.
set -u
start=$(date +%s)
left() { echo $((${SECONDS_LEFT:-540} - $(date +%s) + start)); }
export PYTHONPATH=$PWD/src:$PWD PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
export PYTEST_PLUGINS=pytest_torch_compile.plugin
work=$(mktemp -d)
folders="suites/captioning suites/training suites/modes suites/optimizers suites/regional"
speed="suites/captioning/test_speed.py suites/modes/test_speed.py suites/regional/test_speed.py suites/vision/test_speed.py"
quiet="-p no:cacheprovider -q --tb=short --benchmark-columns=median"

# shellcheck disable=SC2086
TORCHINDUCTOR_COMPILE_THREADS=4 timeout "${WARM_BY:-160}" python3 -m pytest $speed -n "${WORKERS:-5}" $quiet \
    -m "gpu and not slow" --compile-cache="$work/cache" >"$OUT/prewarm.log" 2>&1 &
warming=$!
# shellcheck disable=SC2086
TORCHINDUCTOR_COMPILE_THREADS=4 timeout "${WARM_BY:-160}" python3 -m pytest $folders -k "not test_speed" -n 6 $quiet \
    --compile-device=cuda --compile-backend=inductor --durations=12 >"$OUT/correct.log" 2>&1 &
correct=$!
wait $warming
echo "prewarmed, $(left) s left: $(tail -1 "$OUT/prewarm.log")"
wait $correct
echo "correctness done, $(left) s left: $(tail -1 "$OUT/correct.log")"

for process in 1 2 3 4 5 6; do
    [ "$(left)" -lt "${FIGURES_FROM:-210}" ] && break
    # shellcheck disable=SC2086
    mkdir "$work/samples$process"
    PYTEST_TORCH_COMPILE_SAMPLES="$work/samples$process" timeout "$(left)" python3 -m pytest $speed -m "${WHICH:-gpu and not slow}" \
        --compile-perf=track --compile-update-baselines --compile-cache="$work/cache" \
        --compile-baselines="$work/baselines" $quiet >>"$OUT/record.log" 2>&1
    cat "$work/samples$process"/*.json >>"$OUT/samples.jsonl"
    cp "$work"/baselines/*/speed.json "$OUT/speed.json"
    echo "process $process, $(left) s left: $(tail -1 "$OUT/record.log")"
done

figure() {
    name=$1
    shift
    [ "$(left)" -lt 15 ] && return
    timeout "$(left)" python3 benchmarks/coverage/captioner.py "$@" --out "$work/$name.json" 2>"$work/$name.err" ||
        tail -3 "$work/$name.err"
    cp "$work/$name.json" "$work/figures/" 2>/dev/null
    echo "$name, $(left) s left"
}
mkdir -p "$work/figures"
figure full full --cache "$work/full" --save "$work/artifacts"
figure warm full --cache "$work/warm" --load "$work/artifacts"
figure regional regional --cache "$work/regional"
figure eager eager --cache "$work/eager"
figure parts parts --cache "$work/parts"
cat "$work"/figures/*.json >"$OUT/figures.jsonl" 2>/dev/null
echo "done, $(left) s left"

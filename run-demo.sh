#!/usr/bin/env bash
# Builds grail, narrows a small language model by 30 % with three repairs, heals the last one, and compares
# the results with the dense model on text that was used neither for training nor for calibration. Then
# narrows the image networks of demo/vision at many settings and draws their accuracy: demo/out/report.html.
#
# usage: ./run-demo.sh [MODEL_DIRECTORY CALIBRATION_TEXT HELD_OUT_TEXT]
# Without arguments the model and the texts of demo/ are used. With arguments the image networks are
# skipped. Results are in demo/out.
set -euo pipefail
export LC_ALL=C
# Waiting threads sleep instead of spin, which is faster on a busy machine.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}

if (($# != 0 && $# != 3)); then
    sed -n '6,8s/^# //p' "$0" >&2
    exit 2
fi
calls=$PWD
cd "$(dirname "$0")"
if (($# == 3)); then
    model=$(realpath -- "$calls/$1") calibration=$(realpath -- "$calls/$2")
    held_out=$(realpath -- "$calls/$3")
else
    model=demo/model calibration=demo/calibration.txt held_out=demo/held-out.txt
fi
grail=build/release/bin/grail
out=demo/out
started=$SECONDS
jobs=$(nproc)
jobs=$((jobs > 4 ? 4 : jobs)) # each takes memory

say() {
    printf '\n== %s\n' "$*"
}

# run COMMAND...: shows a command as it can be copied, and runs it
run() {
    printf '\n$ %s\n' "$(quoted "$@")"
    "$@"
}

# quoted COMMAND...: quotes only what the shell would take apart
quoted() {
    local word words=()
    for word; do
        [[ $word =~ ^[A-Za-z0-9_./:=,+@%-]+$ ]] || word=$(printf %q "$word")
        words+=("$word")
    done
    echo "${words[*]}"
}

# field NAME FILE: a number of a JSON document as grail prints it, one key to a line
field() {
    sed -n "s/^ *\"$1\": \"\\{0,1\\}\\([^\",]*\\).*/\\1/p" "$2" | head -n 1
}

say "building"
tools/setup.sh python
mkdir -p build/logs
{
    cmake --preset release && cmake --build --preset release --target grail-cli -j "$(nproc)"
} >build/logs/demo-build.log 2>&1 || { tail -n 40 build/logs/demo-build.log; exit 1; }
"$grail" --version

rm -rf "$out"
mkdir -p "$out"
cat <<END

Lines that begin with \$ are commands. To try one again, copy it in $PWD, with another name after -o.
END
run "$grail" inspect "$model"
"$grail" inspect "$model" --json >"$out/dense.inspect.json"

for repair in none grail full; do
    run "$grail" compress "$model" -o "$out/$repair" --calib "$calibration" --sparsity 0.3 --compensate "$repair"
done

run "$grail" heal "$out/full" --teacher "$model" -o "$out/healed" --calib "$calibration" --heal block --heal-steps 80

say "all of them on text that was used neither for training nor for calibration, as by"
echo "\$ $(quoted "$grail" eval "$out/healed" --data "$held_out")"
for name in dense none grail full healed; do
    directory=$out/$name
    [[ $name == dense ]] && directory=$model
    "$grail" eval "$directory" --data "$held_out" --json --quiet >"$out/$name.eval.json" \
        2>>"$out/warnings.txt"
    "$grail" inspect "$directory" --json >"$out/$name.inspect.json"
    echo "$name $(field parameters "$out/$name.inspect.json") $(field bytes "$out/$name.inspect.json")" \
        "$(field perplexity "$out/$name.eval.json")"
done | awk '
    BEGIN { printf "%-22s %12s %10s %12s %10s\n", "model", "parameters", "size", "perplexity", "recovered" }
    $1 == "dense" { dense = log($4) }
    $1 == "none" { plain = log($4) }
    {
        label = $1 == "dense" ? "dense" : $1 == "healed" ? "repair full, healed" : "30 % cut, repair " $1
        share = ""
        if ($1 != "dense" && $1 != "none" && plain > dense)
            share = sprintf("%.0f %%", 100 * (plain - log($4)) / (plain - dense))
        printf "%-22s %12d %7.2f MB %12.4f %10s\n", label, $2, $3 / 1e6, $4, share
    }'
echo
echo "recovered: share of the log-perplexity that the plain cut lost and the repair wins back"
echo "$(field windows "$out/full.eval.json") windows of $(field context "$out/full.eval.json") tokens;" \
    "$(field overlap_runs "$out/full.eval.json") of $(field calibration_runs "$out/full.eval.json")" \
    "recorded runs of 24 calibration tokens occur in this text"

run "$grail" export "$out/full" -o "$out/full.gguf"
echo "llama.cpp reads this file: llama-cli -m $(quoted "$out/full.gguf")"

# Sweeps and their page are commands of the package for Python.
page=
if (($# == 0)); then
    say "the package for Python, which sweeps and draws"
    venv=build/demo
    if tools/venv.sh packages "$venv" >build/logs/demo-python.log 2>&1; then
        tools/venv.sh wheel "$venv" >>build/logs/demo-python.log 2>&1 || { tail -n 40 build/logs/demo-python.log; exit 1; }
        "$venv/bin/grail" --version
        page=$out/report.html
    else
        echo "left out, with the sweep of image networks and its page: numpy and cffi cannot be fetched from PyPI" \
            "(build/logs/demo-python.log)"
    fi
fi
if [[ -n $page ]]; then
    say "image networks at many settings, which takes a few minutes"
    run "$venv/bin/grail" sweep bench/recipes/demo.json -o "$out/sweep.jsonl" --jobs "$jobs"
    run "$venv/bin/grail" report "$out/sweep.jsonl" -o "$page"
    echo "accuracy of $(grep -c '"dense"' "$out/sweep.jsonl") networks before and after" \
        "$(grep -c '^{"cell"' "$out/sweep.jsonl") cuts"
fi

say "done in $((SECONDS - started)) s; all results are in $PWD/$out"
if [[ -n $page ]]; then
    echo "open this page in a browser: $PWD/$page"
fi

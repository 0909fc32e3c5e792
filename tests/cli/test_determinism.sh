#!/usr/bin/env bash
# The same inputs, options, seed and threads give the same bytes; another number of threads gives the
# same model up to rounding.
#
# usage: test_determinism.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

demo_run() {
    local output=$1
    shift
    runs "$grail" compress "$demo/model" -o "$output" --calib "$demo/calibration.txt" \
        --context "$context" --samples 16 --sparsity 0.3 --quiet "$@"
}

for selector in wanda fold random; do
    check "$selector: the same bytes from the same seed and threads"
    demo_run first --selector $selector --seed 3 --threads 2
    demo_run second --selector $selector --seed 3 --threads 2
    same_result first second
    demo_run other --selector $selector --seed 4 --threads 2
    ! cmp -s first/model.safetensors other/model.safetensors || fail "the seed changes nothing"
    rm -r first second other
done

for options in "--compensate full" "--compensate grail" "--selector fold"; do
    check "$options: one thread and two give the same model up to rounding"
    read -ra words <<<"$options"
    demo_run one --threads 1 "${words[@]}"
    demo_run two --threads 2 "${words[@]}"
    one=$(perplexity one "$demo/held-out.txt" --context "$context" --windows 12 --threads 1 --quiet)
    two=$(perplexity two "$demo/held-out.txt" --context "$context" --windows 12 --threads 2 --quiet)
    runs "$grail" verify one two --data "$demo/held-out.txt" --context "$context" --windows 12 --json
    difference=$(field max_abs stdout)
    echo "   perplexity $one and $two, largest difference of a logit $difference"
    holds "($one - $two) ^ 2 <= (1e-4 * $one) ^ 2"
    holds "$difference < 1e-3"
    rm -r one two
done

#!/usr/bin/env bash
# grail plan and the limits of grail compress: the result has the size that was asked for, a plan is
# a document that compress takes, and what cannot be is refused before anything is computed.
#
# usage: test_plan.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 16 32 96
tiny=$golden/llama3
options=(--calib ids.npy --context 32 --align 1)

check "every budget gives a plan within its limit"
for budget in uniform flap slimgpt error "search --tries 3"; do
    read -r budget tries <<<"$budget"
    runs "$grail" plan "$tiny" -o "$budget.json" --target-ratio 0.8 --budget $budget $tries "${options[@]}" --json
    holds "$(field cost stdout) <= $(field most stdout)"
    holds "$(field most stdout) < $(field dense_cost stdout)"
    says "\"budget\": \"$budget\"" stdout
    says "\"kept\"" "$budget.json"
done

check "trials are shown unless they are not wanted"
runs "$grail" plan "$tiny" -o shown.json --target-ratio 0.8 --tries 2 "${options[@]}"
says "trial 1/2  uniform" stderr
grep -qE '^trial 1/2 .*, about .* left$' stderr || fail "says nothing of the time that is left"
! grep -q $'[\r\e]' stderr || fail "control characters in a pipe"
says "by '" stdout
says "divergence from the dense network" stdout
says "note: layers get widths of their own" stderr
says "a limit with --uniform-widths" stdout
runs "$grail" plan "$tiny" -o hidden.json --target-ratio 0.8 --tries 2 "${options[@]}" --quiet
! grep -q trial stderr || { show; fail "printed trials"; }

# widths_of_experts PLAN: of each block the kept units of its experts, each once, and of that of all tokens
widths_of_experts() {
    python3 - "$1" <<'PYTHON'
import collections, json, sys
blocks = collections.defaultdict(set)
shared = {}
for site in json.load(open(sys.argv[1]))["sites"]:
    if site["kind"] == "ffn":
        block = site["site"].split(".")[2]
        if "shared" in site["site"]:
            shared[block] = site["kept"]
        elif "experts" in site["site"]:
            blocks[block].add(site["kept"])
assert blocks and all(len(kept) == 1 for kept in blocks.values()), blocks
assert all(kept % list(blocks[block])[0] == 0 for block, kept in shared.items()), (blocks, shared)
PYTHON
}

check "experts that have one number in config.json get one width, and that of all tokens a multiple"
while read -r model amount; do
    read -ra words <<<"$amount"
    words+=(--sites ffn --calib ids.npy --context 32)
    rm -rf experts
    runs "$grail" compress "$golden/$model" -o experts "${words[@]}" --dry-run
    runs "$grail" compress "$golden/$model" -o experts "${words[@]}" --quiet
    widths_of_experts experts/plan.json || fail "$model $amount"
done <<'END'
deepseek-v2 --sparsity 0.45
deepseek-v2 --sparsity 0.45 --align 1
deepseek-v2 --target-ratio 0.7 --budget flap
deepseek-v2 --target-ratio 0.7 --budget slimgpt
deepseek-v2 --target-ratio 0.7 --budget search --tries 2
deepseek-v3 --target-ratio 0.7 --budget error --uniform-widths
granitemoe --target-ratio 0.7 --budget error
END
refuses 1 "its experts lie in one tensor and cannot have different widths" "$grail" compress "$golden/granitemoe" -o out \
    --sparsity model.layers.0.mlp.experts.1.down_proj=0.5 --calib ids.npy --context 32 --quiet

check "the next command works as it is printed"
cp -r "$tiny" "a model"
runs "$grail" plan "a model" -o "a plan.json" --target-ratio 0.8 --budget error --uniform-widths "${options[@]}"
says "next: grail compress 'a model' -o narrow --plan 'a plan.json' --calib ids.npy --context 32" stdout
! grep -q "note: layers" stderr || { show; fail "warns of uniform widths"; }
runs env PATH="$(dirname "$grail"):$PATH" sh -c "$(sed -n 's/^next: //p' stdout)"
[[ -r narrow/config.json ]] || fail "wrote no model"

check "compress takes a plan, and limits themselves give the same"
runs "$grail" compress "$tiny" -o from-plan --plan error.json --calib ids.npy --context 32 --quiet
runs "$grail" compress "$tiny" -o from-limit --target-ratio 0.8 --budget error "${options[@]}" --quiet
cmp from-plan/model.safetensors from-limit/model.safetensors || fail "different weights"
for budget in error search; do
    refuses_clean 1 "the budget '$budget' chooses widths by what it measures on calibration text; give some, or use the budget uniform or slimgpt (--calib, --budget)" \
        "$grail" compress "$tiny" -o out --target-ratio 0.8 --budget $budget
done

check "a dry run measures nothing: it shows uniform widths, and says what choosing others would take"
runs "$grail" compress "$tiny" -o out --target-ratio 0.8 --budget uniform --dry-run
! grep -q "uniform ones" stdout || { show; fail "exact widths are said to stand for others"; }
sed '/^totals:/,$d' stdout >uniform
for budget in search "search --tries 7 --drop-sublayers" error flap; do
    runs "$grail" compress "$tiny" -o out --target-ratio 0.8 --budget $budget --calib ids.npy --dry-run
    cmp uniform <(sed '/^totals:/,$d' stdout) || fail "other widths than the uniform ones"
    says "the widths above are uniform ones that meet the limit; --budget ${budget%% *} measures and chooses others" stdout
    ! grep -q trial stderr || { show; fail "made trials"; }
    case $budget in
    search) says "choosing them takes up to 48 trials on the samples, about" stdout ;;
    search*) says "choosing them takes up to 7 trials on the samples, about" stdout ;;
    *) says "choosing them takes a pass of the dense network over the samples, about" stdout ;;
    esac
    refuses_clean 1 "cannot" "$grail" compress "$tiny" -o out --target-ratio 0.0001 --budget $budget --dry-run
done

check "whole sublayers go where that is allowed"
runs "$grail" plan "$tiny" -o drops.json --target-ratio 0.7 --budget error --drop-sublayers "${options[@]}"
runs "$grail" compress "$tiny" -o drops-plan --plan drops.json --calib ids.npy --context 32 --quiet
runs "$grail" compress "$tiny" -o drops-limit --target-ratio 0.7 --budget error --drop-sublayers "${options[@]}" --quiet
cmp drops-plan/model.safetensors drops-limit/model.safetensors || fail "different weights"
sed '0,/"kept": [0-9]*/s//"kept": 0/' error.json >dropped.json
runs "$grail" compress "$tiny" -o dropped --plan dropped.json --calib ids.npy --context 32 --quiet
says "heads 0 of 4 units kept, width 64 -> 0, in 1 site" stdout
says "layers lack their attention or FFN" stdout
runs "$grail" verify "$tiny" dropped
refuses 1 "the budget 'flap' gives every sublayer a width" \
    "$grail" plan "$tiny" -o out --target-ratio 0.8 --budget flap --drop-sublayers "${options[@]}"

check "a limit that one step of a site misses is said so"
limit=(--target-kv-bytes 1000 --budget uniform --dry-run)
runs "$grail" compress "$demo/model" -o out "${limit[@]}"
says "warning: 896 of kv-bytes stay where the limit lets 1.00 k stay, since one step of the sites that may be cut would exceed it; let more kinds of sites be cut (--sites), let their widths differ, or lower --align" stderr
runs "$grail" plan "$demo/model" -o missed.json "${limit[@]:0:4}" --calib "$demo/calibration.txt" --samples 8
says "warning: 896 of kv-bytes stay where" stderr
runs "$grail" compress "$demo/model" -o out --target-kv-bytes 1152 "${limit[@]:2}"
! grep -q "where the limit lets" stderr || { show; fail "warns of a limit that is met"; }

check "an edited plan is taken, a wrong one refused"
sed 's/"kept": [0-9]*/"kept": 1/' error.json >edited.json
runs "$grail" compress "$tiny" -o edited --plan edited.json --calib ids.npy --context 32 --dry-run
sed 's/"kept": [0-9]*/"kept": 99999/' error.json >wide.json
refuses 1 "keeps 99999 units, expected 1 to" "$grail" compress "$tiny" -o out --plan wide.json --calib ids.npy --context 32

# The plan of a run with the units that its report says were kept, and a random selector.
name_units() { # OUTPUT PLAN
    python3 - "$1" "$2" <<'EOF'
import json, sys
plan = json.load(open(sys.argv[1] + "/plan.json"))
for planned, reported in zip(plan["sites"], json.load(open(sys.argv[1] + "/report.json"))["sites"]):
    planned["selector"] = "random"
    if "kept_units" in reported:
        planned["kept_units"] = reported["kept_units"]
json.dump(plan, open(sys.argv[2], "w"))
EOF
}

check "a plan that names units gives the bytes of the selector that keeps them"
for repair in none grail "full --refit none --alpha 0.01"; do
    rm -rf by-selector by-units
    runs "$grail" compress "$tiny" -o by-selector --sparsity 0.5 --selector wanda --compensate $repair "${options[@]}" --quiet
    name_units by-selector units.json
    runs "$grail" compress "$tiny" -o by-units --plan units.json --calib ids.npy --context 32 --quiet
    cmp by-selector/model.safetensors by-units/model.safetensors || fail "different weights after $repair"
    says '"kept_units"' by-units/plan.json
done
if grep -q kept_units by-selector/plan.json error.json; then
    fail "a plan names units that nobody named"
fi
sed 's/"kept_units": \[[0-9]*/"kept_units": [99999/' units.json >far.json
refuses 1 "\"kept_units\"[0] is 99999, expected a unit from 0 to" \
    "$grail" compress "$tiny" -o out --plan far.json --calib ids.npy --context 32

check "limits are numbers with suffixes"
runs "$grail" plan "$tiny" -o size.json --target-size 0.00019GB --budget error "${options[@]}" --json
says '"limit": "size"' stdout
runs "$grail" plan "$tiny" -o macs.json --target-macs 80k --budget error "${options[@]}" --json
for bad in 0 -1 nan x 5Q 1e400; do
    refuses 2 "--target-params takes a number above 0" "$grail" plan "$tiny" -o out --target-params $bad "${options[@]}"
done
refuses 2 "--target-ratio takes a number above 0 and at most 1" "$grail" plan "$tiny" -o out --target-ratio 1.5 "${options[@]}"
refuses 2 "give exactly one of --target-ratio, --target-params" "$grail" plan "$tiny" -o out "${options[@]}"
refuses 2 "give exactly one of --target-ratio, --target-params" "$grail" plan "$tiny" -o out --target-ratio 0.5 --target-macs 5 "${options[@]}"
refuses 2 "give exactly one of --sparsity, --plan and a limit" "$grail" compress "$tiny" -o out --sparsity 0.5 --target-macs 5 "${options[@]}"

check "what cannot be is refused"
refuses 1 "cannot be met: with the least widths of all sites that may be cut the network still has" \
    "$grail" plan "$tiny" -o out --target-params 10 --budget error "${options[@]}"
for name in no.gguf no.jsonl no.HTML; do
    refuses 1 "'$name': a plan is written; give a name that ends in .json" "$grail" plan "$tiny" -o $name --target-ratio 0.8 "${options[@]}"
done
refuses 1 "'error.json' exists; remove it or give another name" "$grail" plan "$tiny" -o error.json --target-ratio 0.8 "${options[@]}"
refuses 1 "unknown budget 'best'" "$grail" plan "$tiny" -o out --target-ratio 0.8 --budget best "${options[@]}"
refuses 1 "gives every depth its own width" "$grail" plan "$tiny" -o out --target-ratio 0.8 --budget slimgpt --uniform-widths "${options[@]}"
refuses 1 "the budget 'search' needs a closed loop" "$grail" plan "$tiny" -o out --target-ratio 0.8 --loop open "${options[@]}"
refuses 1 "on calibration text; give some" "$grail" plan "$tiny" -o out --target-ratio 0.8

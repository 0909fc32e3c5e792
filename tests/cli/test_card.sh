#!/usr/bin/env bash
# The model card beside every result: what it says, that it says nothing of the machine, and that the source's
# README.md is not taken for it.
#
# usage: test_card.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 16 32 96
copy_model "$golden/llama3" model
echo "# The card of the dense model" >model/README.md

check "the card of a narrowed model"
runs "$grail" compress model -o "$work/out" --calib ids.npy --sparsity=0.5 --memory 1G --quiet
card=out/README.md
! grep -q "card of the dense" $card || fail "the source's README.md describes the result"
[[ $(head -n 6 $card | paste -sd,) == "---,library_name: transformers,tags:,- grail,- pruning,- llama" ]] ||
    fail "the front matter is $(head -n 6 $card)"
says "Made by grail from \`model\`." $card
grep -qE '^\| ffn \| 2 \| 80 of 160 \| 80 of 160 \| obs \| 0\.[0-9]{4} \| 0\.[0-9]{4} \|$' $card || fail "the cut of ffn"
grep -qE '^\| heads \| 2 \| 4 of 8 \| 64 of 128 \| obs \|' $card || fail "the cut of heads"
says "- alpha: cross-validation" $card
says "16 windows of 32 tokens of \`ids.npy\` (sha256 " $card
says "| parameters | " $card
says "- transformers: yes; " $card
says "    grail compress model --output DIR --calib ids.npy --sparsity 0.5" $card
says "    model = transformers.AutoModelForCausalLM.from_pretrained(\"DIR\")" $card
for internal in ridge_of ridge_scale regional_training token_weights conv_fit BatchNorm; do
    ! grep -q "$internal" $card || fail "names $internal, which says nothing of a decoder to its user"
done
! grep -qF "$work" $card || fail "names a path of this machine that report.json does not name"
! grep -q "base_model" $card || fail "names a base model that is not known"

check "its errors are those of report.json"
command -v python3 >/dev/null && python3 - <<'END'
import json
sites = [s for s in json.load(open("out/report.json"))["sites"] if s["kind"] == "ffn"]
means = [sum(s[f"held_error_{when}"] for s in sites) / len(sites) for when in ("before", "after")]
line = f"| obs | {means[0]:.4f} | {means[1]:.4f} |"
assert line in open("out/README.md").read(), line
END

check "the same run to another place, with other progress, has the same card"
mkdir elsewhere
runs "$grail" compress model -o elsewhere/other --calib ids.npy --sparsity 0.5 --json
cmp $card elsewhere/other/README.md
runs "$grail" compress model -o elsewhere/plain --calib ids.npy --plan "$work/out/plan.json"
says "    grail compress model --output DIR --calib ids.npy --plan plan.json" elsewhere/plain/README.md

check "a command with words that a shell would read"
runs "$grail" compress model -o quoted --calib ids.npy --sparsity 0.5 --selector magnitude-l1 \
    --compensate none --quiet
says "## Repair" quoted/README.md
says "None." quoted/README.md
mv ids.npy "its ids.npy"
runs "$grail" compress model -o spaces --calib "its ids.npy" --sparsity 0.5 --quiet
says "--calib 'its ids.npy' --sparsity" spaces/README.md
mv "its ids.npy" ids.npy

check "the base model, where it is known"
sed -i 's|{|{"_name_or_path": "owner/Tiny-1.0",|' model/config.json
runs "$grail" compress model -o named --calib ids.npy --sparsity 0.5 --quiet
says "base_model: owner/Tiny-1.0" named/README.md
for unknown in "/home/somebody/model" "./model" "/model" "../model" "owner/" "a/b/c" "a/b: c" "model"; do
    sed -i "s|\"_name_or_path\": \"[^\"]*\"|\"_name_or_path\": \"$unknown\"|" model/config.json
    rm -rf named
    runs "$grail" compress model -o named --calib ids.npy --sparsity 0.5 --quiet
    ! grep -q base_model named/README.md || fail "takes '$unknown' for a repository"
done
mkdir -p models--owner--Other/snapshots models--owner--Other/blobs
cp -r model models--owner--Other/snapshots/0123
runs "$grail" compress models--owner--Other/snapshots/0123 -o cached --calib ids.npy --sparsity 0.5 --quiet
says "base_model: owner/Other" cached/README.md

check "the card of a healed model"
teacher=models--owner--Other/snapshots/0123
runs "$grail" heal out --teacher $teacher -o healed --calib ids.npy --heal block --heal-steps 2 --quiet
says "# A healed " healed/README.md
says "and the dense \`$teacher\`." healed/README.md
says "- block 2: 2 steps, loss on held-out samples " healed/README.md
says "At most 2 steps each. The largest step is 0.06 for blocks, times the root mean square of a matrix." healed/README.md
says "$(grep '^| parameters | ' $card)" healed/README.md # from the teacher to the result
says "base_model: owner/Other" healed/README.md
says "- distillation" healed/README.md
! grep -q "## Cut" healed/README.md || fail "tells of a cut"
runs "$grail" heal out --teacher model -o same --calib ids.npy --heal block,model --heal-steps 2 --heal-rate 0.99 \
    --heal-time 10h --quiet
says "- the whole network: 2 steps, loss on held-out samples " same/README.md
grep -qE "which none made lower beyond chance: kept as it was$" same/README.md || fail "says nothing of what none made better"
says "At most 2 steps each, and 36000 seconds for all. The largest step is 0.99 for blocks and 0.99 for" same/README.md

check "the card of a single file of weights"
runs "$grail" compress "$demo/vision/cnn.pth" -o cnn --calib "$demo/vision/calibration" --samples 16 --sparsity 0.5 --json --quiet
mv stdout cnn.json
says "16 images of " cnn/README.md
! grep -q "library_name" cnn/README.md || fail "says that transformers reads a file"
says "- statistics of BatchNorm: as they were" cnn/README.md
says '    tensors = torch.load("DIR/cnn.pth", map_location="cpu", weights_only=True)' cnn/README.md

check "no lines of Python with a name that is more than a name, and for layers that no class builds"
plain=(--sparsity ffn=0.3 --selector magnitude-l1 --compensate none --align 1 --quiet)
vit=$source_dir/tests/golden/vision/hf-vit
quoted='a");print("b.pth'
cp "$demo/vision/cnn.pth" "$quoted"
runs "$grail" compress "$quoted" -o named-file --sparsity 0.3 --selector magnitude-l1 --compensate none --quiet
! grep -q "In Python" named-file/README.md || fail "prints the name of the file"
copy_model "$vit" vit
runs "$grail" compress vit -o vit-known "${plain[@]}"
says '    model = transformers.ViTForImageClassification.from_pretrained("DIR")' vit-known/README.md
sed -i 's/"ViTForImageClassification"/"ViT(); import os; os.abort"/' vit/config.json
runs "$grail" compress vit -o vit-hostile "${plain[@]}"
! grep -q "import os" vit-hostile/README.md || fail "prints what the configuration says as lines"
uneven=("${plain[@]}" --sparsity ffn=0.5,model.layers.0.mlp.down_proj=0.25)
runs "$grail" compress "$source_dir/tests/golden/models/gemma" -o uneven-gemma "${uneven[@]}"
grep -q "^  the same width in all layers would load" stdout && ! grep -q "more of them load FFNs" stdout ||
    { show; fail "promises FFNs that differ to a family without classes"; }
! grep -q "In Python" uneven-gemma/README.md || fail "gives lines for a class that does not load it"
[[ ! -e uneven-gemma/modeling_grail.py ]] || fail "brings classes of a family that has none"
runs "$grail" compress model -o uneven "${uneven[@]}"
says '    model = transformers.AutoModelForCausalLM.from_pretrained("DIR", trust_remote_code=True)' uneven/README.md
says "from transformers.models.llama.modeling_llama import (" uneven/modeling_grail.py

check "it and the summary count the fits whose weights stayed"
command -v python3 >/dev/null && python3 - <<'END'
import json
report, summary = json.load(open("cnn/report.json")), json.load(open("cnn.json"))
count = lambda fits, name: sum(f["fallback"] == name for f in fits)
fits = [f for s in report["sites"] for f in s.get("consumers", [])] + report["refits"]
moved, plain = count(fits, "bias only"), count(fits, "kept plain")
assert moved + plain > 0
line = f": {moved} of {len(fits)} with a new bias only, {plain} as they were\n"
assert line in open("cnn/README.md").read(), line
assert count(report["refits"], "bias only") == 0
for key, name in ("bias_only", "bias only"), ("kept_plain", "kept plain"):
    assert sum(k[key] for k in summary["cut"]) == count(report["sites"], name), key
END

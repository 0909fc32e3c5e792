#!/usr/bin/env bash
# Healing on the command line: after a cut and later towards a teacher, what is refused, JSON, and
# Ctrl-C.
#
# usage: test_heal.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 16 32 96
write_ids other.npy 16 32 96 2
tiny=$golden/llama3
compress=("$grail" compress "$tiny" --calib ids.npy --sparsity 0.5 --align 1 --metric plain)
heal=("$grail" heal narrow --teacher "$tiny" --calib ids.npy --heal-steps 16)
runs "${compress[@]}" -o narrow --quiet

# both CODE TEXT OPTION...: compress and heal refuse it alike
both() {
    refuses_clean "$1" "$2" "${compress[@]}" -o out --heal block "${@:3}"
    refuses_clean "$1" "$2" "$grail" heal narrow --teacher "$tiny" --calib ids.npy -o out "${@:3}"
}
check "a directory for scratch files that is of no use is refused before the work"
both 1 "cannot create a scratch file in 'nowhere': No such file or directory (--scratch)" --scratch nowhere
both 1 "cannot create a scratch file in 'ids.npy': Not a directory (--scratch)" --scratch ids.npy

check "values that are refused"
for what in foo "" block,block model, BLOCK; do
    both 1 "unknown healing '$what'; expected one of none, block, model, block,model" --heal "$what"
done
for steps in -1 x 1.5 99999999999999999999; do
    both 2 "--heal-steps takes an integer of at least 1, not '$steps'" --heal-steps "$steps"
done
both 2 "--heal-steps takes an integer of at least 1, not '0'" --heal-steps 0
for batch in 0 -1 x 1.5; do
    both 2 "--heal-batch takes an integer of at least 1, not '$batch'" --heal-batch "$batch"
done
for group in 0 -1 x 1.5; do
    both 2 "--heal-group takes an integer of at least 1, not '$group'" --heal-group "$group"
done
needs_blocks="--heal-group has no effect without one of --heal block and --heal block,model"
refuses_clean 2 "grail heal: $needs_blocks" "${heal[@]}" -o out --heal-group 2
for what in none model; do
    refuses_clean 2 "grail compress: $needs_blocks" "${compress[@]}" -o out --heal "$what" --heal-group 2
done
for rate in 0 1 -0.1 inf x nan ""; do
    both 2 "--heal-rate takes a number above 0 and below 1, not '$rate'" --heal-rate "$rate"
done
for time in 0 -5 x 10x 10mm inf nan "" m; do
    both 2 "--heal-time takes a time above 0, such as 90s, 10m or 2h, not '$time'" --heal-time "$time"
done

check "a teacher and an output are needed"
refuses_clean 2 "grail heal: give --teacher MODEL; see" "$grail" heal narrow --calib ids.npy -o out
refuses_clean 2 "grail heal: give --output DIR and --calib PATH; see" "$grail" heal narrow --teacher "$tiny"
refuses_clean 2 "expected MODEL" "$grail" heal -o out --teacher "$tiny"
refuses_clean 1 "nowhere" "$grail" heal narrow --calib ids.npy -o out --teacher nowhere
refuses_clean 1 "the model reads text, the teacher images" \
    "$grail" heal narrow --calib ids.npy -o out --teacher "$demo/vision/cnn.pth"

check "an output inside the model or the teacher is refused"
cp -r "$tiny" dense
inside=("$grail" heal narrow --teacher dense --calib ids.npy --heal-steps 2)
refuses 1 "the output 'dense/out' lies inside the teacher 'dense'" "${inside[@]}" -o dense/out
refuses 1 "the output 'narrow/out' lies inside the model 'narrow'" "${inside[@]}" -o narrow/out
refuses 1 "'dense' exists already" "${inside[@]}" -o dense --resume
refuses_clean 1 "cannot heal 'dense' towards 'dense/': both are the same model" \
    "$grail" heal dense --teacher dense/ --calib ids.npy -o out

# divergence MODEL: from the dense network
divergence() {
    runs "$grail" verify "$tiny" "$1" --data other.npy --json
    field mean_kl stdout
}
# nearer A B: A is nearer to the dense network than B
nearer() {
    holds "$(divergence "$1") < $(divergence "$2")"
}
check "heal and compress --heal bring the network nearer to the dense one"
runs "${heal[@]}" -o later
says "healed the network in" stdout
says "written: later" stdout
grep -qE '^  healed the network: loss 0\.[0-9]{5} -> 0\.[0-9]{5}, that of step [0-9]+ kept$' stderr || fail "no line of the end"
(($(wc -l <stderr) == 1)) || { show; fail "a pipe gets one line a training"; }
nearer later narrow
check "a model that was healed on other text knows what it was calibrated on"
runs "$grail" heal narrow --teacher "$tiny" --calib other.npy --heal-steps 2 -o elsewhere --quiet
for text in ids other; do
    runs "$grail" eval elsewhere --data $text.npy
    says "warning: the model was calibrated on this text" stderr
done
runs "${heal[@]}" -o blocks --heal block
says "healed block 1 of 2 in" stdout
says "healed block 2 of 2 in" stdout
grep -qE '^  healed block 1/2: .*, about .* left$' stderr || fail "says nothing of the time that is left"
grep -qE '^  healed block 2/2: [a-z ,.0-9>-]*$' stderr || fail "no line of the end"
(($(wc -l <stderr) == 2)) || { show; fail "a pipe gets one line a block"; }
! grep -q $'[\r\e]' stderr || fail "control characters in a pipe"
nearer blocks narrow
if command -v python3 >/dev/null; then
    check "on a terminal it shows how far the samples are through a block"
    python3 - "${heal[@]}" -o terminal --heal block <<'END' || fail "the terminal shows something else"
import os, pty, re, subprocess, sys
reader, writer = pty.openpty()
run = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=writer)
os.close(writer)
text = b""
try:
    while chunk := os.read(reader, 4096):
        text += chunk
except OSError:  # all writers have gone
    pass
shares = [int(share) for share in re.findall(rb"\r\x1b\[K  through block 1/2: (\d+) % ", text)]
sys.exit(0 if run.wait() == 0 and len(shares) >= 4 and shares == sorted(shares) and shares[-1] == 100 else repr(text))
END
fi
runs "${compress[@]}" -o at-once --heal model --heal-steps 16
says "healed the network in" stdout
check "both are the same training"
cmp later/model.safetensors at-once/model.safetensors || fail "the weights differ"
says '"teacher":' later/report.json
check "--quiet says nothing on stderr"
runs "${heal[@]}" -o quiet --quiet
[[ ! -s stderr ]] || { show; fail "prints on stderr"; }
cmp later/model.safetensors quiet/model.safetensors || fail "the weights differ"
check "--eval measures the teacher, the model and the result before the result has its name"
runs "${heal[@]}" -o measured --eval other.npy --json
mv stdout summary.json
for pair in "dense $tiny" "narrow narrow" "result later"; do
    runs "$grail" eval "${pair#* }" --data other.npy --json
    measured=$(field "${pair%% *}" summary.json)
    expected=$(field perplexity stdout)
    holds "($measured - $expected)^2 <= ($expected * 1e-5)^2" || fail "${pair%% *} is $measured, expected $expected"
done
cmp later/model.safetensors measured/model.safetensors || fail "the weights differ"
says "| before it was healed | $(printf %.4f "$(field narrow summary.json)") +- " measured/README.md
runs "${heal[@]}" -o shown --eval other.npy --quiet
says "quality on other.npy:" stdout
! grep -q "calibrated on" stderr shown/README.md || { show; fail "warns of other data"; }
grep -qE '^  healed +perplexity [0-9.]+ \+- [0-9.]+$' stdout || fail "no quality of the result"
runs "${heal[@]}" -o seen --eval ids.npy --quiet
says "grail: warning: --eval: the network was calibrated on this data" stderr
says "Note: the network was calibrated on this data, so it says little about other data." seen/README.md
write_ids short.npy 2 1 96
refuses_clean 1 "a context of 1 tokens is too short" "${heal[@]}" -o out --eval short.npy
refuses_clean 1 "cannot read 'nowhere' for --eval" "${heal[@]}" -o out --eval nowhere

check "nothing is healed where nothing was cut, or with --heal none"
runs "${compress[@]}" -o none --heal none --quiet
cmp narrow/model.safetensors none/model.safetensors || fail "the weights differ"
runs "$grail" compress "$tiny" --calib ids.npy --sparsity 0 -o whole --heal block,model
! grep -q heal stdout stderr || { show; fail "speaks of healing"; }

check "what no step made better is said to be kept, on a terminal in one line that is updated"
runs "${compress[@]}" -o kept --heal block,model --heal-steps 4 \
    --heal-rate 0.99
cmp narrow/model.safetensors kept/model.safetensors || fail "the weights differ"
grep -qE '^  healed block 1/2: kept as it was, loss 0\.[0-9]{5}' stderr || fail "progress"
grep -qE '^healed the network in 4 steps and .*: kept as it was, no gain beyond chance; its loss on held-out samples is 0\.[0-9]{5}$' stdout || fail "summary"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    script -qec "${heal[*]} -o updated --heal block" /dev/null >terminal.txt </dev/null
    (($(tr -dc '\r' <terminal.txt | wc -c) > 8)) || fail "is not updated in place"
    (($(grep -c "healed block [12]/2: " terminal.txt) == 2)) || fail "not one line a block at the end"
fi

check "blocks that are healed together are named together"
runs "${heal[@]}" -o grouped --heal block --heal-group 2
says "  healed blocks 1-2/2: loss 0." stderr
grep -qE '^healed blocks 1 to 2 of 2 in [0-9]+ steps and .*: loss on held-out samples 0\.[0-9]{5} -> 0\.[0-9]{5}' stdout || fail "summary"
says "- blocks 1 to 2: " grouped/README.md
runs "${heal[@]}" -o brief --heal block --heal-group 9 --heal-time 0.0001s
says "blocks 1 to 2 of 2 were not healed: the time did not suffice" stdout
says "  blocks 1-2/2: not healed, the time does not suffice" stderr

check "a step has as many samples as were asked for"
runs "${heal[@]}" -o usual --heal block
runs "${heal[@]}" -o single --heal block --heal-batch 1
grep -q '"batch": 1' single/report.json || fail "the report does not tell"
! grep -q '"batch"' usual/report.json || fail "the report tells what is usual"
! cmp -s usual/model.safetensors single/model.safetensors || fail "the weights are the same"

check "a limit of time that does not suffice is said, and changes nothing"
runs "${heal[@]}" -o hurried --heal block,model --heal-time 0.0001s
says "block 1 of 2 was not healed: the time did not suffice" stdout
says "  the network: not healed, the time does not suffice" stderr
says "- the whole network: not trained, the time did not suffice" hurried/README.md
cmp narrow/model.safetensors hurried/model.safetensors || fail "the weights differ"

check "a limit of time"
for time in 0.01 0.01s 1m 0.5h; do
    runs "${heal[@]}" -o timed --heal-time $time --quiet
    rm -r timed
done

check "Ctrl-C, and --resume"
if env --default-signal=INT true 2>/dev/null; then
    env --default-signal=INT "$grail" heal narrow --teacher "$tiny" --calib ids.npy -o out/ \
        --heal-steps 500 --heal-rate 0.001 >stdout 2>stderr &
    until [[ -e out.partial/grail-saved-1 ]]; do
        kill -0 $! 2>/dev/null || { show; fail "it ended before"; }
        sleep 0.01
    done
    kill -INT $!
    code=0
    wait $! || code=$?
    ((code == 130)) || { show; fail "exit code $code"; }
    says "grail: interrupted; the finished part is in 'out.partial'; continue it with:" stderr
    refuses 1 "heal.steps was 500 and is now 499" "$grail" heal narrow --teacher "$tiny" \
        --calib ids.npy -o out --heal-steps 499 --heal-rate 0.001 --resume
    slow=("$grail" heal narrow --teacher "$tiny" --calib ids.npy --heal-steps 500 --heal-rate 0.001)
    runs "${slow[@]}" -o out --resume --quiet
    runs "${slow[@]}" -o uninterrupted --quiet
    same_result uninterrupted out
    [[ ! -e out.partial ]] || fail "left out.partial"
fi

command -v python3 >/dev/null || skip "JSON is not parsed: python3 is not installed"
check "--json"
runs "${heal[@]}" -o json --heal block,model --json
python3 - <<'END' || { show; fail "not the expected JSON"; }
import json
with open("stdout") as file:
    document = json.load(file)
assert document["output"] == "json"
healed = document["healed"]
assert [h["block"] for h in healed] == [0, 1, None], healed
for h in healed:
    assert h["held_loss_after"] <= h["held_loss_before"]
    assert 0 <= h["best_step"] <= h["steps"] <= 16
END

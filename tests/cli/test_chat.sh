#!/usr/bin/env bash
# Conversations as calibration and evaluation text: the ids are those of the text that the model's template makes.
#
# usage: test_chat.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

export OMP_NUM_THREADS=2
copy_model "$demo/model" model
printf '{{ bos_token }}{%% for m in messages %%}{{ m.content }}{%% endfor %%}' >model/chat_template.jinja
lines() { head -c 20000 "$demo/held-out.txt" | tr -d '"\\\t' | fold -s -w 400 | awk "{ printf \"$1\n\", \$0 }"; }
lines '{\"text\": \"%s\"}' >text.jsonl
lines '{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}]}' >chat.jsonl
lines '{\"conversations\": [{\"from\": \"human\", \"value\": \"%s\"}]}' | gzip >speakers.jsonl.gz

check "perplexity of conversations is that of their text"
eval_of() { "$grail" eval "$1" --data "$2" --context 64 --windows 20 --json "${@:3}"; }
runs eval_of model text.jsonl
grep -v '"text_sha256"' stdout | cp /dev/stdin expected
says '"perplexity"' expected
for data in chat.jsonl speakers.jsonl.gz; do
    runs eval_of model $data
    grep -v '"text_sha256"' stdout | cmp - expected || { show; fail "$data: another result"; }
done
runs eval_of model chat.jsonl --field messages
grep -v '"text_sha256"' stdout | cmp - expected || { show; fail "--field: another result"; }

check "weights of runs are the same, and the template goes with them"
narrow() { "$grail" compress model -o "$1" --calib "$2" --context 64 --samples 8 --sparsity 0.3 --quiet; }
runs narrow from-text text.jsonl
runs narrow from-chat chat.jsonl
cmp from-text/model.safetensors from-chat/model.safetensors || fail "other weights"
cmp model/chat_template.jinja from-chat/chat_template.jinja || fail "the template is not there"

check "statistics of conversations"
runs "$grail" gram model --full -o text.gguf --calib text.jsonl --context 64 --samples 8 --quiet
runs "$grail" gram model --full -o chat.gguf --calib chat.jsonl --context 64 --samples 8 --quiet
runs "$grail" compress model -o from-stats --stats chat.gguf --select open --loop open --sparsity 0.3 --quiet
runs "$grail" compress model -o from-stats-of-text --stats text.gguf --select open --loop open --sparsity 0.3 --quiet
cmp from-stats/model.safetensors from-stats-of-text/model.safetensors || fail "other weights"

check "what does not fit is refused"
refuses 1 "holds conversations, which are read by the protocol plain alone (--protocol)" \
    eval_of model chat.jsonl --protocol lines
printf '{"messages": [{"role": "user", "content": "a"}, {"role": "user"}]}\n' >bad.jsonl
refuses_clean 1 'bad.jsonl: line 1: message 2: has no "content"' narrow out bad.jsonl
printf '\n{{ now() }}' >model/chat_template.jinja
refuses_clean 1 "chat.jsonl: line 1: model/chat_template.jinja: line 2: the function 'now' is not understood; apply" \
    narrow out chat.jsonl
printf '{{ raise_exception("only\x1b[2J poems") }}' >model/chat_template.jinja
refuses_clean 1 'the template refuses the conversation: only\x1b[2J poems' narrow out chat.jsonl
runs eval_of model text.jsonl # no template is read for texts

check "plain text for a model that answers"
answers='the model has a chat template (model/chat_template.jinja), but the samples of '
printf '{%% for m in messages %%}[ASK] {{ m.content }} [/ASK]{{ eos_token }}{%% endfor %%}' >model/chat_template.jinja
lines '{\"text\": \"[ASK] %s [/ASK]\"}' >rendered.jsonl
lines '[ASK] %s [/ASK]' >rendered.txt
few() { "$grail" "$1" model --context 64 --samples 8 --quiet "${@:2}"; }
# warns TIMES COMMAND...: must succeed, and warn so often of plain text
warns() {
    runs "${@:2}"
    (($(grep -cF "grail: warning: $answers" stderr) == $1)) || { show; fail "not $1 warnings: ${*:2}"; }
}
cut=(compress --sparsity 0.3)
warns 1 few "${cut[@]}" -o plain --calib text.jsonl
says "grail: warning: $answers'text.jsonl' hold no conversation: fitted to plain text alone, it answers worse; calibrate on" stderr
says "Note: $answers'text.jsonl' hold no conversation" plain/README.md
says "\"notice\": \"$answers" plain/report.json
for data in chat.jsonl speakers.jsonl.gz rendered.jsonl rendered.txt; do
    warns 0 few "${cut[@]}" -o none --calib $data --dry-run
    warns 0 few gram -o mixed.gguf --calib text.jsonl --calib $data
    rm mixed.gguf
done
warns 0 few "${cut[@]}" -o answering --calib rendered.txt --json
says '"notices": []' stdout
(($(grep -c '"notice"' answering/report.json) == 0)) || fail "report.json has a notice"
warns 1 few "${cut[@]}" -o none --calib text.jsonl --dry-run --json
says "\"$answers'text.jsonl' hold" stdout
warns 1 few "${cut[@]}" -o none --calib text.jsonl --calib "$demo/held-out.txt" --dry-run
says "of 'text.jsonl' and of the other texts hold" stderr
runs few "${cut[@]}" -o none --calib missing.txt --selector magnitude-l1 --compensate none --dry-run # needs no samples
refuses 1 "missing.txt" few "${cut[@]}" -o none --calib missing.txt --dry-run
warns 1 few plan -o plan.json --calib text.jsonl --target-ratio 0.8 --budget error --json
says "\"$answers" stdout
warns 1 few compress -o none --calib text.jsonl --target-ratio 0.8 --budget error --dry-run
warns 1 few quantize -o q.gguf --type q8_0 --calib text.jsonl --json
says "\"$answers" stdout
runs "$grail" heal plain --teacher model -o healed --calib text.jsonl --context 64 --samples 8 --heal-steps 1 --json --quiet
says "warning: the model has a chat template (plain/chat_template.jinja)" stderr
says '"the model has a chat template' stdout
runs "$grail" heal plain --teacher model -o healed-chat --calib chat.jsonl --context 64 --samples 8 --heal-steps 1 --quiet
[[ ! -s stderr ]] || { show; fail "warns of conversations"; }
says "Note:" healed/README.md
(($(grep -c "Note:" healed-chat/README.md) == 0)) || fail "the model card has a notice of the earlier samples"

check "statistics of plain text"
warns 1 few gram --full -o plain.gguf --calib text.jsonl --json
says "\"$answers" stdout
warns 0 few gram --full -o answers.gguf --calib chat.jsonl
open=(compress --select open --loop open --sparsity 0.3)
runs "$grail" "${open[@]}" model --stats plain.gguf -o none --dry-run
says "warning: the statistics of 'plain.gguf' are of samples without a conversation" stderr
runs "$grail" gram plain.gguf --add answers.gguf -o both.gguf --json
for stats in answers.gguf both.gguf; do
    runs "$grail" "${open[@]}" model --stats $stats -o none --dry-run
    if grep -q "conversation" stderr; then show; fail "warns of $stats"; fi
done

check "token ids, and templates in other places"
printf '{{ bos_token }}{%% for m in messages %%}{{ m.content }}<|end_of_text|>{%% endfor %%}' >model/chat_template.jinja
write_ids ends.npy 16 64 4
write_ids plain.npy 16 64 1
warns 0 few "${cut[@]}" -o none --calib ends.npy --dry-run
warns 1 few "${cut[@]}" -o none --calib plain.npy --dry-run
copy_model model moved
rm moved/chat_template.jinja
sed -i '0,/{/s//{"chat_template": "{{ m.content }}<|end_of_text|>",/' moved/tokenizer_config.json
runs "$grail" "${cut[@]}" moved --calib text.jsonl --context 64 --samples 8 -o none --dry-run
says "(moved/tokenizer_config.json: chat_template)" stderr
runs "$grail" export moved --type f16 -o moved.gguf
runs "$grail" gram moved.gguf --calib plain.npy --context 64 --samples 8 -o of-gguf.gguf
says "(moved.gguf: tokenizer.chat_template)" stderr
runs "$grail" gram moved.gguf --calib ends.npy --context 64 --samples 8 -o of-ends.gguf --quiet
[[ ! -s stderr ]] || { show; fail "warns of conversations"; }
# Ids need neither a template nor a tokenizer.
printf 'damaged' >moved/tokenizer.json
runs "$grail" gram moved --calib plain.npy --context 64 --samples 8 -o of-ids.gguf --quiet
printf 'damaged' >moved/tokenizer_config.json
runs "$grail" gram moved --calib plain.npy --context 64 --samples 8 -o of-ids-2.gguf --quiet

check "answers"
answer() { "$grail" generate model --chat --prompt "The dog" --tokens 12 "$@"; }
printf '{{ bos_token }}{%% for m in messages %%}{{ m.role }}: {{ m.content }}{{ eos_token }}{%% endfor %%}Once' >model/chat_template.jinja
runs answer --quiet
cp stdout answer
runs answer --json --system "A story."
says '"prompt": "The dog"' stdout
runs answer --json
tokens=$(sed -n 's/^  "prompt_tokens": \([0-9]*\).*/\1/p' stdout)
printf '[%s]' "$(sed -n '/"ids"/,/]/p' stdout | tr -d ' \n')" >ids
# The same prompt, written by hand.
runs "$grail" generate model --json --tokens 12 --prompt 'user: The dog<|end_of_text|>Once'
says "\"prompt_tokens\": $tokens" stdout
printf '[%s]' "$(sed -n '/"ids"/,/]/p' stdout | tr -d ' \n')" | cmp - ids || { show; fail "another answer"; }
[[ $(head -n 1 answer) != *"The dog"* ]] || { cat answer; fail "prints the prompt"; }
refuses 2 "--system" "$grail" generate model --prompt a --system b
refuses 1 "the model has no chat template" "$grail" generate "$demo/model" --chat --prompt a

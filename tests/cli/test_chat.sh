#!/usr/bin/env bash
# A model with a chat template is warned of that is calibrated on plain text; conversations are refused by their field.
#
# usage: test_chat.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

export OMP_NUM_THREADS=2
copy_model "$demo/model" model
printf '{{ not read' >model/chat_template.jinja
lines() { head -c 20000 "$demo/held-out.txt" | tr -d '"\\\t' | fold -s -w 400 | awk "{ printf \"$1\n\", \$0 }"; }
lines '{\"text\": \"%s\"}' >text.jsonl
lines '{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}]}' >chat.jsonl
lines '{\"conversations\": [{\"from\": \"human\", \"value\": \"%s\"}]}' | gzip >speakers.jsonl.gz
# As a template writes them whose turns end with the only token that does not begin every text.
lines '{\"text\": \"user: %s<|end_of_text|>\"}' >rendered.jsonl
lines 'user: %s<|end_of_text|>' >rendered.txt
few() { "$grail" "$1" model --context 64 --samples 8 --quiet "${@:2}"; }
cut=(compress --sparsity 0.3)

check "conversations are refused by their field"
remedy=": is a conversation, and the chat template is of no kind that is known here: model/chat_template.jinja; give the token ids that apply_chat_template"
refuses_clean 1 "chat.jsonl: line 1: \"messages\"$remedy" few "${cut[@]}" -o out --calib chat.jsonl
refuses_clean 1 "speakers.jsonl.gz: line 1: \"conversations\"$remedy" few "${cut[@]}" -o out --calib speakers.jsonl.gz
refuses 1 "chat.jsonl: line 1: \"messages\"$remedy" "$grail" eval model --data chat.jsonl --field messages

check "a template that is not known: plain text is drawn, and said so"
runs few "${cut[@]}" -o drawn --calib self
says "grail: warning: the network drew plain text and no conversations: it has a chat template (model/chat_template.jinja), but it is of no kind that is known here" stderr
says "Note: the network drew plain text" drawn/README.md
runs few "${cut[@]}" -o asked --calib rendered.txt --eval "$demo/held-out.txt" --windows 1
says "answers: no questions were asked: the model has a chat template" stdout

check "a template that is known: conversations of files and of the network itself"
# Two tokens of the model become marks.
copy_model model knows
sed -i -e 's/"Ġlost": 510/"<|im_start|>": 510/; s/"Ġk": 511/"<|im_end|>": 511/; /"Ġlo st",/d; /"Ġ k"$/d; s/"Ġv isit",/"Ġv isit"/' \
    -e 's/"added_tokens": *\[/&{"id": 510, "content": "<|im_start|>", "special": true}, {"id": 511, "content": "<|im_end|>", "special": true}, /' knows/tokenizer.json
printf '%s' "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" >knows/chat_template.jinja
know() { "$grail" "$1" knows --context 64 --samples 8 "${@:2}"; }
quiet() { [[ ! -s stderr ]] || { show; fail "warns of $1"; }; }
runs know "${cut[@]}" -o talks --calib chat.jsonl --quiet --eval "$demo/held-out.txt" --windows 1
quiet chat.jsonl
says "answers to 3 questions, right: dense " stdout
says "What is the capital of France? (Paris)" stdout
says "Answers, of which " talks/README.md
runs know "${cut[@]}" -o speakers --calib speakers.jsonl.gz --quiet
cmp talks/model.safetensors speakers/model.safetensors || fail "human is another role than user"
runs know "${cut[@]}" -o drew --calib self --quiet --eval "$demo/held-out.txt" --windows 1 --json
quiet self
says '"expected": "Paris"' stdout
runs know "${cut[@]}" -o none --calib self --dry-run --quiet
quiet "a dry run"
cmp -s talks/model.safetensors drew/model.safetensors && fail "the network drew the file"
runs know "${cut[@]}" -o short --calib self --context 8 --quiet
says "but a window of this context has no room for its turns" stderr
killed_at killed 1 "$grail" compress knows --context 64 --samples 8 "${cut[@]:1}" --calib self
runs know "${cut[@]}" -o killed --calib self --resume --quiet
cmp drew/model.safetensors killed/model.safetensors || fail "a killed run drew other conversations"
printf '{"messages": []}\n' >empty.jsonl
refuses_clean 1 'empty.jsonl: line 1: "messages": is a conversation without a message; leave the line out' know "${cut[@]}" -o out --calib empty.jsonl
refuses_clean 1 "holds conversations, which the protocol lines would take apart" know "${cut[@]}" -o out --calib chat.jsonl --protocol lines
runs "$grail" eval knows --data chat.jsonl --windows 2 --context 64

check "plain text for a model that answers"
answers='the model has a chat template (model/chat_template.jinja), but the samples of '
# warns TIMES COMMAND...: must succeed, and warn so often of plain text
warns() {
    runs "${@:2}"
    (($(grep -cF "grail: warning: $answers" stderr) == $1)) || { show; fail "not $1 warnings: ${*:2}"; }
}
warns 1 few "${cut[@]}" -o plain --calib text.jsonl
says "grail: warning: $answers'text.jsonl' hold no conversation: they lack its special tokens; fitted to plain text alone, it answers worse; calibrate on" stderr
says "Note: $answers'text.jsonl' hold no conversation" plain/README.md
says "\"notice\": \"$answers" plain/report.json
cmp model/chat_template.jinja plain/chat_template.jinja || fail "the template is not there"
for data in rendered.jsonl rendered.txt; do
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
runs "$grail" heal plain --teacher model -o healed-chat --calib rendered.jsonl --context 64 --samples 8 --heal-steps 1 --quiet
[[ ! -s stderr ]] || { show; fail "warns of conversations"; }
says "Note:" healed/README.md
(($(grep -c "Note:" healed-chat/README.md) == 0)) || fail "the model card has a notice of the earlier samples"

check "statistics of plain text"
warns 1 few gram --full -o plain.gguf --calib text.jsonl --json
says "\"$answers" stdout
warns 0 few gram --full -o answers.gguf --calib rendered.jsonl
open=(compress --select open --loop open --sparsity 0.3)
runs "$grail" "${open[@]}" model --stats plain.gguf -o none --dry-run
says "warning: the statistics of 'plain.gguf' are of samples without a conversation" stderr
runs "$grail" gram plain.gguf --add answers.gguf -o both.gguf --json
for stats in answers.gguf both.gguf; do
    runs "$grail" "${open[@]}" model --stats $stats -o none --dry-run
    if grep -q "conversation" stderr; then show; fail "warns of $stats"; fi
done

check "token ids, and templates in other places"
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

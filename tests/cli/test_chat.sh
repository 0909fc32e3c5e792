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

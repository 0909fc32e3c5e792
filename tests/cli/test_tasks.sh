#!/usr/bin/env bash
# grail eval --tasks: refusals say what is missing, and the scores, the JSON and the lines of
# documents agree.
#
# usage: test_tasks.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

tasks=$source_dir/tests/golden/tasks
all=arc_easy,arc_challenge,hellaswag,piqa,boolq,winogrande,openbookqa

check "what is missing, unknown or without effect is refused"
refuses 2 "give --data PATH, or --tasks NAMES and --task-data DIR" "$grail" eval "$demo/model" --tasks piqa
refuses 2 "--task-data has no effect without --tasks" "$grail" eval "$demo/model" \
    --data "$demo/held-out.txt" --task-data .
refuses 2 "--tasks has no effect with --data" "$grail" eval "$demo/model" --data x --tasks piqa \
    --task-data .
refuses 2 "--windows has no effect without --data" "$grail" eval "$demo/model" --tasks piqa \
    --task-data . --windows 2
refuses 2 "--limit takes" "$grail" eval "$demo/model" --tasks piqa --task-data . --limit 0
refuses 1 "one of arc_easy, arc_challenge, hellaswag, piqa, boolq, winogrande, openbookqa; did you mean 'boolq'? (--tasks)" \
    "$grail" eval "$demo/model" --tasks piqa,bolq --task-data "$tasks"
refuses 1 "given twice (--tasks)" "$grail" eval "$demo/model" --tasks piqa,piqa --task-data "$tasks"
refuses 1 "has no 'piqa.jsonl' or 'piqa.jsonl.gz'; write the validation split" \
    "$grail" eval "$demo/model" --tasks piqa --task-data .
refuses 1 "zero-shot tasks are for models that read text (--tasks)" \
    "$grail" eval "$demo/vision/cnn.pth" --tasks piqa --task-data "$tasks"
printf '{"goal":"g","sol1":"a","sol2":"b","label":0}\n{"goal":"g","sol1":"a","sol2":"b"}\n' >piqa.jsonl
refuses 1 './piqa.jsonl: line 2: "label": expected an integer from 0 to 1, found nothing' \
    "$grail" eval "$demo/model" --tasks piqa --task-data .

check "all tasks, with a line for every document"
runs "$grail" eval "$demo/model" --tasks $all,stories.jsonl --task-data "$tasks" --json \
    --per-document lines.jsonl --quiet
(($(grep -c '"task":' stdout) == 8)) || fail "not 8 tasks"
[[ $(field task stdout) == arc_easy ]] || fail "the first task is $(field task stdout)"
(($(wc -l <lines.jsonl) == $(cat "$tasks"/*.jsonl | wc -l))) || fail "not a line for every document"
says '{"task":"stories.jsonl","index":3,"gold":0,"log_likelihoods":[-' lines.jsonl

check "the same bytes again, and the first documents of --limit up to rounding"
runs "$grail" eval "$demo/model" --tasks piqa,boolq --task-data "$tasks" --per-document a
runs "$grail" eval "$demo/model" --tasks piqa,boolq --task-data "$tasks" --per-document b
cmp a b || fail "two runs differ"
runs "$grail" eval "$demo/model" --tasks piqa --task-data "$tasks" --limit 2 --per-document few --json
[[ $(field documents stdout) == 2 ]] || fail "not 2 documents"
paste <(tr -d '[]{}' <few | grep -o 'log_likelihoods":.*' | cut -d: -f2 | tr , '\n') \
    <(head -n 2 a | tr -d '[]{}' | grep -o 'log_likelihoods":.*' | cut -d: -f2 | tr , '\n') >both
(($(wc -l <both) == 4)) || fail "not 4 log-likelihoods"
while read -r first second; do
    holds "$first - $second < 1e-4 && $second - $first < 1e-4 && $first < 0"
done <both

check "the text output has every score"
runs "$grail" eval "$demo/model" --tasks piqa,boolq --task-data "$tasks"
grep -qE '^piqa +acc [01]\.[0-9]{4} \+- 0\.[0-9]{4}  acc_norm [01]\.[0-9]{4} \+- 0\.[0-9]{4}  \(4 documents' stdout ||
    { show; fail "no scores of piqa"; }
! grep -q '^boolq.*acc_norm' stdout || fail "boolq has an acc_norm"

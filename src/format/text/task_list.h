/* The tasks that are known by name, in the order in which messages list them:
 * TASK(name, reader in task_forms.c, another name that its file may have, whether
 * lm-evaluation-harness also gives acc_norm, the split that it measures). A file is called
 * NAME.jsonl or NAME.jsonl.gz. Source: the task descriptions of lm-evaluation-harness;
 * docs/numerics.md, Zero-shot tasks. */
TASK(arc_easy, read_arc, NULL, true, "test")
TASK(arc_challenge, read_arc, NULL, true, "test")
TASK(hellaswag, read_hellaswag, "hellaswag_val.jsonl", true, "validation")
TASK(piqa, read_piqa, NULL, true, "validation")
TASK(boolq, read_boolq, NULL, false, "validation")
TASK(winogrande, read_winogrande, NULL, false, "validation")
TASK(openbookqa, read_openbookqa, NULL, true, "test")

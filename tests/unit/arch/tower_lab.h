/* Checkpoints of vision transformers for tests: the shapes of a golden one, changed, and written
 * anew as zeros. */
#ifndef GRAIL_TESTS_ARCH_TOWER_LAB_H
#define GRAIL_TESTS_ARCH_TOWER_LAB_H

#include "support/support.h"

#include "arch/model.h"

#define HEADS_OF_16 "head_dim=16"

enum { TOWER_TENSORS = 128, TOWER_NAME = 128 };

typedef struct tower_lab {
    char names[TOWER_TENSORS][TOWER_NAME];
    tensor_view views[TOWER_TENSORS]; /* view i has names[i] */
    int count;
    json_t *config;            /* NULL where the golden checkpoint has none */
    const char *beside, *text; /* name and content of one more file; NULL for none */
    const char *weights;       /* another name of the weights file, or NULL */
    char *directory;           /* temporary */
    char *path;                /* of the checkpoint in it */
} tower_lab;

/** Reads names, dtypes and shapes of tests/golden/vision/<golden>. */
void tower_open(tower_lab *lab, const char *golden);
void tower_close(tower_lab *lab);

tensor_view *tower_tensor(tower_lab *lab, const char *name); /* the test fails without it */
void tower_drop(tower_lab *lab, const char *name);
void tower_add(tower_lab *lab, const char *name, int64_t rows, int64_t columns);
void tower_rename(tower_lab *lab, const char *from, const char *to);
/** Puts `prefix` before every name that begins with `begin`. */
void tower_wrap(tower_lab *lab, const char *begin, const char *prefix);

/** Writes the checkpoint, in place of an earlier one, and opens it. `settings` is one "key=value",
 * or NULL. */
grail_status tower_try(tower_lab *lab, const char *setting, grail_model **out);
/** tower_try that must succeed. */
grail_model *tower_model(tower_lab *lab, const char *setting);
/** tower_try that must fail so. */
void tower_refuses(tower_lab *lab, const char *setting, grail_status code, const char *text);

/** Opens the checkpoint at `path` with HEADS_OF_16 and closes it: to try each failing allocation.
 */
grail_status tower_open_once(void *path);

/** Path of a golden checkpoint; static. */
const char *tower_golden(const char *name);

/** First node of that kind; NULL without. */
const node *tower_node(const grail_model *m, node_kind kind);

OWNS(tower_lab, tower_close)

#endif

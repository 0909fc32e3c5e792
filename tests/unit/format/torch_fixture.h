/* What the tests of torch files share: one storage, the files around it, and what was read. */
#ifndef GRAIL_TESTS_TORCH_FIXTURE_H
#define GRAIL_TESTS_TORCH_FIXTURE_H

#include "torch_bytes.h"

#include "format/torch/torch_file.h"
#include "support/owned.h"

enum { TORCH_FIXTURE_VALUES = 24, TORCH_FIXTURE_LARGEST = 1 << 20 };

/* TORCH_FIXTURE_LARGEST is the most that a file takes. */

/** 0, 1, 2, ...: of storage "0", once torch_fixture_fill, a setup of a group, has run. */
extern float torch_fixture_values[TORCH_FIXTURE_VALUES];
int torch_fixture_fill(void **state);

/** A file with a pickle and the storage, and what is read of it. */
typedef struct torch_fixture {
    buffer object; /* the pickle of a zip file */
    buffer file;
    tensor_file *torch;
} torch_fixture;

torch_fixture torch_fixture_begin(void);
void torch_fixture_end(torch_fixture *f);
/** Opens and loads the file again; for support_fail_each_allocation. */
grail_status torch_fixture_reopen(void *fixture);

/** The entire storage as one vector. */
torch_tensor_bytes torch_fixture_plain(const char *name);
/** NULL where there is none. */
const tensor_view *torch_fixture_find(const tensor_file *file, const char *name);
/** Element i of F32 values, which may stand at any address. */
double torch_fixture_value(const tensor_view *view, size_t i);
double torch_fixture_sum(const tensor_view *view);
/** A path below ../shared/data; skips the test without it. */
const char *torch_fixture_shared(const char *name);

OWNS(torch_fixture, torch_fixture_end)

#endif

/* Reads ONNX models and writes each again, below its name in another directory: as it is, and with
 * all that can be replaced replaced by itself.
 *
 * usage: onnx_rewrite same|replaced DIRECTORY FILE...
 * For each file a line: "read FILE", or "refused FILE: " and why; only what is not supported may be
 * refused. */
#include "format/onnx/onnx_edit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static grail_status give(void *context, int64_t first, int64_t count, float *out)
{
    const float *values = context;
    memcpy(out, values + first, (size_t)count * sizeof *values);
    return GRAIL_OK;
}

/* `values` have room for all tensors. */
static grail_status replace_tensors(const onnx_file *file, onnx_edit *e, float *values)
{
    for (int64_t i = 0; i < file->tensor_count; i++) {
        const onnx_tensor *t = &file->tensors[i];
        int64_t count = 0;
        if (!shape_elements(t->view.rank, t->view.shape, &count)) {
            return GRAIL_ERROR_INTERNAL;
        }
        if (dtype_is_float(t->view.dtype)) {
            CHECK(onnx_tensor_f32(t, values));
            CHECK(onnx_edit_tensor(e, i, t->view.rank, t->view.shape, give, values));
            values += count;
        } else if (t->element == ONNX_INT64) {
            int64_t *integers = NULL;
            CHECK(memory_new(&integers, (size_t)count, sizeof *integers));
            grail_status status = onnx_tensor_integers(t, integers);
            if (status == GRAIL_OK) {
                status = onnx_edit_integers(e, i, t->view.rank, t->view.shape, integers);
            }
            memory_free(integers);
            CHECK(status);
        }
    }
    return GRAIL_OK;
}

static bool has_tensor(const onnx_node *n)
{
    for (int i = 0; i < n->attribute_count; i++) {
        if (n->attributes[i].tensor >= 0) {
            return true;
        }
    }
    return false;
}

/* Nodes by turns: other attributes, which are its own, and a copy in place of it. Those that hold
 * tensors have got others. */
static grail_status replace_nodes(const onnx_file *file, onnx_edit *e)
{
    for (int64_t i = 0; i < file->node_count; i++) {
        const onnx_node *n = &file->nodes[i].node;
        if (has_tensor(n)) {
            continue;
        }
        if (i % 2 == 0) {
            CHECK(onnx_edit_attributes(e, i, n->attribute_count, n->attributes));
        } else {
            CHECK(onnx_edit_insert(e, i, n));
            onnx_edit_remove(e, i);
        }
    }
    return GRAIL_OK;
}

static grail_status rewrite(const char *path, const char *directory, bool replaces)
{
    grail_status status = GRAIL_OK;
    onnx_file *file = NULL;
    onnx_edit *e = NULL;
    char *out = NULL;
    float *values = NULL;
    size_t room = 0;
    const char *slash = strrchr(path, '/');
    TRY(onnx_file_open(path, &file));
    TRY(onnx_edit_create(file, &e));
    for (int64_t i = 0; i < file->tensor_count; i++) {
        room += 4 * (file->tensors[i].view.bytes + 1); /* bytes become values of four */
    }
    TRY(memory_new(&values, room, 1));
    if (replaces) {
        TRY(replace_tensors(file, e, values));
        TRY(replace_nodes(file, e));
    }
    TRY(path_join(&out, directory, slash == NULL ? path : slash + 1));
    TRY(onnx_edit_write(e, out, ONNX_LARGEST_FILE));
out:
    onnx_edit_free(e);
    onnx_file_close(file);
    memory_free(out);
    memory_free(values);
    return status;
}

int main(int argc, char **argv)
{
    bool failed = argc < 3;
    for (int i = 3; i < argc; i++) {
        const grail_status status = rewrite(argv[i], argv[2], strcmp(argv[1], "replaced") == 0);
        if (status == GRAIL_OK) {
            printf("read %s\n", argv[i]);
        } else {
            printf("refused %s\n", grail_error_message());
            failed = failed || status != GRAIL_ERROR_UNSUPPORTED;
        }
    }
    return failed ? 1 : 0;
}

#include "format/onnx/onnx_copies.h"

#include "format/tensor_limits.h"

#include <stdio.h>
#include <string.h>

/* The factors of a Resize, or where it crops, which no cut changes. */
static bool is_of_sizes(const onnx_file_node *n, int input)
{
    return input > 0 && (onnx_node_is(n, "Resize") || onnx_node_is(n, "Upsample"));
}

/* The tensor of floats that an input of a node reads, -1 without. */
static int64_t read_by(const onnx_file *f, const onnx_file_node *n, int input)
{
    int64_t elements = 0;
    const int64_t value = n->inputs[input];
    const bool is_other = value < 0 || onnx_node_is(n, "Identity") || is_of_sizes(n, input);
    const int64_t tensor = is_other ? -1 : f->values[value].tensor;
    const tensor_view *v = tensor < 0 ? NULL : &f->tensors[tensor].view;
    return v != NULL && dtype_is_float(v->dtype) && !f->tensors[tensor].is_numbers &&
                   shape_elements(v->rank, v->shape, &elements) && elements > 1
               ? tensor
               : -1;
}

void onnx_free_name(const onnx_file *f, const char *name, int64_t *number, char *out, size_t size)
{
    do {
        const int length = snprintf(out, size, "%s.%lld", name, (long long)++*number);
        out[length > TENSOR_LONGEST_NAME ? 0 : length] = '\0';
    } while (*out != '\0' && onnx_file_find(f, out) >= 0);
}

static grail_status add(onnx_copy_list *list, const onnx_copy *like, const char *name)
{
    char *own = NULL;
    CHECK(memory_reserve(&list->items, (size_t)list->count + 1, sizeof list->items[0]));
    CHECK(memory_copy_string(&own, name));
    list->items[list->count] = *like;
    list->items[list->count++].view.name = own;
    return GRAIL_OK;
}

grail_status onnx_copies_find(const onnx_file *f, onnx_copy_list *out)
{
    grail_status status = GRAIL_OK;
    int64_t *readers = NULL; /* of tensors; the number of the last copy */
    char name[TENSOR_LONGEST_NAME + 32];
    *out = (onnx_copy_list){0};
    TRY(memory_new(&readers, (size_t)f->tensor_count, sizeof readers[0]));
    for (int64_t i = 0; i < f->node_count; i++) {
        for (int k = 0; k < f->nodes[i].node.input_count; k++) {
            const int64_t tensor = read_by(f, &f->nodes[i], k);
            const tensor_view *view = tensor < 0 ? NULL : &f->tensors[tensor].view;
            if (view == NULL) {
                continue;
            }
            if (readers[tensor] > 0) {
                onnx_free_name(f, view->name, &readers[tensor], name, sizeof name);
                TRY(*name == '\0' ? GRAIL_OK : add(out, &(onnx_copy){*view, tensor, i, k}, name));
            }
            readers[tensor] += readers[tensor] == 0 ? 1 : 0;
        }
    }
    TRY(name_index_init(&out->index, out->count, out->items, sizeof out->items[0]));
out:
    memory_free(readers);
    return status;
}

void onnx_copy_list_fini(onnx_copy_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        memory_free((char *)(uintptr_t)list->items[i].view.name);
    }
    memory_free(list->items);
    name_index_fini(&list->index);
    *list = (onnx_copy_list){0};
}

const onnx_copy *onnx_copy_at(const onnx_copy_list *list, int64_t node, int input)
{
    int64_t begin = 0;
    int64_t end = list->count;
    while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        const onnx_copy *c = &list->items[middle];
        if (c->node == node && c->input == input) {
            return c;
        }
        const bool is_before = c->node < node || (c->node == node && c->input < input);
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    return NULL;
}

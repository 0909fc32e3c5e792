#include "arch/onnx_counts.h"

#include "arch/onnx_arguments.h"

#include <stdio.h>
#include <string.h>

/* Whether no constant states the number. */
static bool is_computed(const onnx_count *c)
{
    return c->tensor < 0 && c->attribute == NULL;
}

static bool is_of(const onnx_integers *integers, const onnx_count *c, bool own)
{
    return integers->tensor == c->tensor && integers->attribute == c->attribute &&
           (integers->own != NULL) == own && (!own || integers->node == c->node);
}

/* Adds the integers among which one counts channels, as they are. */
static grail_status add_integers(const onnx_file *f, const onnx_count *c, onnx_integer_list *list)
{
    const onnx_attribute *a = c->attribute;
    const onnx_tensor *t = c->tensor < 0 ? NULL : &f->tensors[c->tensor];
    const size_t count = t != NULL ? t->view.bytes / (dtype_bits(t->view.dtype) / 8)
                         : a->kind == ONNX_INTEGERS ? (size_t)a->count
                                                    : 1;
    CHECK(memory_reserve(&list->items, (size_t)list->count + 1, sizeof list->items[0]));
    onnx_integers *one = &list->items[list->count++];
    *one = (onnx_integers){.tensor = c->tensor, .node = c->node, .attribute = a};
    CHECK(memory_new(&one->values, count, sizeof one->values[0]));
    if (t != NULL) {
        return onnx_tensor_integers(t, one->values);
    }
    memcpy(one->values, a->kind == ONNX_INTEGERS ? a->integers : &a->integer,
           count * sizeof one->values[0]);
    return GRAIL_OK;
}

static grail_status differ_too_much(const onnx_file *f, const onnx_count *c)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "the constant '%s' counts channels for several nodes, which keep other "
                     "numbers; give each a constant of its own",
                     c->tensor < 0 ? c->attribute->name : f->tensors[c->tensor].view.name);
}

/* Makes the list that was added last the node's own, which reads the constant itself. */
static grail_status name_own(const onnx_file *f, const onnx_count *c, onnx_integers *one)
{
    char name[64];
    int64_t number = 0;
    const onnx_file_node *n = &f->nodes[c->node];
    one->input = 0;
    while (one->input < n->node.input_count &&
           (n->inputs[one->input] < 0 || f->values[n->inputs[one->input]].tensor != c->tensor)) {
        one->input++;
    }
    if (one->input == n->node.input_count || f->tensors[c->tensor].view.rank != 1 ||
        f->tensors[c->tensor].element != ONNX_INT64 || f->opset < ONNX_OWN_INTEGERS) {
        return differ_too_much(f, c);
    }
    do {
        snprintf(name, sizeof name, "grail/counts/%lld.%lld", (long long)c->node,
                 (long long)number++);
    } while (onnx_file_find(f, name) >= 0);
    return memory_copy_string(&one->own, name);
}

/* *out <- where the integer that counts channels is in the list: of all that read the constant, or
 * of the node's own. */
static grail_status count_place(const onnx_file *f, const onnx_count *c, bool own,
                                onnx_integer_list *list, int64_t **out)
{
    int64_t i = 0;
    while (i < list->count && !is_of(&list->items[i], c, own)) {
        i++;
    }
    if (i == list->count) {
        CHECK(add_integers(f, c, list));
        CHECK(own ? name_own(f, c, &list->items[i]) : GRAIL_OK);
    }
    *out = &list->items[i].values[c->element];
    return GRAIL_OK;
}

/* How many channels of a value are left, of how many. */
typedef struct share {
    int64_t left, all;
} share;

static bool are_equal(share a, share b)
{
    return a.left * b.all == b.left * a.all;
}

/* The share of a Linear is that of what is made of it. Its parts must keep the same share. */
static grail_status share_of_linear(const onnx_reading *r, const int64_t *dense,
                                    const int64_t *narrow, int linear, bool *has_parts, share *out)
{
    const int value = r->linears[linear].value;
    *has_parts = false;
    *out = value == GRAPH_NONE ? (share){1, 1} : (share){narrow[value], dense[value]};
    for (int i = linear + 1; i < r->linear_count; i++) {
        bool inner = false;
        share part = {1, 1};
        if (r->linears[i].parent == linear) {
            CHECK(share_of_linear(r, dense, narrow, i, &inner, &part));
            if (*has_parts && !are_equal(*out, part)) {
                return onnx_misfit("counts channels of parts, which keep other numbers");
            }
            *out = part;
            *has_parts = true;
        }
    }
    return GRAIL_OK;
}

/* The share that a number must have which counts those channels, or is computed from them. */
static grail_status share_of(const onnx_reading *r, const int64_t *dense, const int64_t *narrow,
                             const onnx_channels *c, share *out)
{
    bool has_parts = false;
    share found = {1, 1};
    if (c->linear != 0) {
        CHECK(share_of_linear(r, dense, narrow, c->linear, &has_parts, &found));
    } else if (c->value != GRAPH_NONE) {
        found = (share){narrow[c->value], dense[c->value]};
    }
    *out = (has_parts ? c->second : c->outer) ? found : (share){1, 1};
    return GRAIL_OK;
}

/* *out <- the narrow number; what is computed must be right by itself. */
static grail_status narrow_number(const onnx_reading *r, const onnx_count *c, const int64_t *dense,
                                  const int64_t *narrow, onnx_integer_list *list, int64_t *out)
{
    int64_t *place = NULL;
    share wanted;
    share computed;
    CHECK(share_of(r, dense, narrow, &c->of, &wanted));
    CHECK(share_of(r, dense, narrow, &c->by, &computed));
    *out = 0;
    if (is_computed(c)) {
        return are_equal(wanted, computed)
                   ? GRAIL_OK
                   : onnx_misfit("counts channels by a number that is computed from others, which "
                                 "are not narrowed alike");
    }
    CHECK(count_place(r->file, c, false, list, &place));
    *out = *place;
    if (*out <= 0 || wanted.left == wanted.all) {
        return GRAIL_OK;
    }
    if (*out > INT32_MAX || *out * wanted.left % wanted.all != 0) {
        return onnx_misfit("counts %lld of %lld channels, of which %lld are left, in pieces",
                           (long long)*out, (long long)wanted.all, (long long)wanted.left);
    }
    *out = *out * wanted.left / wanted.all;
    return GRAIL_OK;
}

/* Puts the narrow numbers in the place of the dense ones. With `shared` of a constant, which is
 * true at first, they are those of all nodes that read it; where these keep other numbers it
 * becomes false. */
static grail_status put_shared(const onnx_reading *r, const int64_t *numbers, bool *shared,
                               bool *differ, onnx_integer_list *list)
{
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < r->count_count; i++) {
            const onnx_count *c = &r->counts[i];
            int64_t *place = NULL;
            if (is_computed(c)) {
                continue;
            }
            CHECK(count_place(r->file, c, false, list, &place));
            if (round == 1 && *place != numbers[i]) {
                CHECK(c->tensor < 0 ? differ_too_much(r->file, c) : GRAIL_OK);
                shared[c->tensor] = false;
            }
            *differ = *differ || *place != numbers[i];
            *place = numbers[i];
        }
    }
    return GRAIL_OK;
}

/* Constants that are not shared stay, and nodes that keep other numbers get their own. */
static grail_status put_own(const onnx_reading *r, const int64_t *numbers, const bool *shared,
                            onnx_integer_list *list)
{
    const int64_t count = list->count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t tensor = list->items[i].tensor;
        CHECK(tensor < 0 || shared[tensor]
                  ? GRAIL_OK
                  : onnx_tensor_integers(&r->file->tensors[tensor], list->items[i].values));
    }
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < r->count_count; i++) {
            const onnx_count *c = &r->counts[i];
            int64_t *place = NULL;
            if (is_computed(c) || c->tensor < 0 || shared[c->tensor]) {
                continue;
            }
            CHECK(count_place(r->file, c, false, list, &place));
            if (*place != numbers[i]) {
                CHECK(count_place(r->file, c, true, list, &place));
                CHECK(round == 1 && *place != numbers[i] ? differ_too_much(r->file, c) : GRAIL_OK);
                *place = numbers[i];
            }
        }
    }
    return GRAIL_OK;
}

static grail_status put_numbers(const onnx_reading *r, const int64_t *numbers, bool *differ,
                                onnx_integer_list *list)
{
    bool *shared = NULL; /* of tensors */
    grail_status status = memory_new(&shared, (size_t)r->file->tensor_count, sizeof shared[0]);
    for (int64_t i = 0; status == GRAIL_OK && i < r->file->tensor_count; i++) {
        shared[i] = true;
    }
    status = status == GRAIL_OK ? put_shared(r, numbers, shared, differ, list) : status;
    status = status == GRAIL_OK ? put_own(r, numbers, shared, list) : status;
    memory_free(shared);
    return status;
}

grail_status onnx_set_counts(onnx_reading *r, const int64_t *narrow, bool *differ,
                             onnx_integer_list *list)
{
    grail_status status = GRAIL_OK;
    int64_t *dense = NULL;
    int64_t *numbers = NULL;
    TRY(memory_new(&dense, (size_t)r->g->value_count, sizeof dense[0]));
    TRY(memory_new(&numbers, (size_t)r->count_count + 1, sizeof numbers[0]));
    TRY(graph_widths(r->g, dense));
    for (int64_t i = 0; i < r->count_count; i++) {
        r->node = &r->file->nodes[r->counts[i].node];
        TRY(onnx_in_node(r, narrow_number(r, &r->counts[i], dense, narrow, list, &numbers[i])));
    }
    TRY(put_numbers(r, numbers, differ, list));
out:
    memory_free(dense);
    memory_free(numbers);
    return status;
}

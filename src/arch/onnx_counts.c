#include "arch/onnx_counts.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_numbers.h"
#include "graph/axes.h"
#include "graph/operators.h"

#include <string.h>

/* Whether no constant states the number. */
static bool is_computed(const onnx_count *c)
{
    return c->tensor < 0 && c->attribute == NULL;
}

/* The node that counts, where it reads the list which another node makes of the tensor; -1: it
 * reads the tensor itself, or what is made of that list. */
static int64_t counter_of(const onnx_file *f, const onnx_count *c)
{
    const onnx_file_node *n = &f->nodes[c->node];
    const onnx_file_node *reader = c->tensor < 0 ? NULL : &f->nodes[c->reader];
    for (int k = 0; reader != NULL && c->reader != c->node && k < n->node.input_count; k++) {
        if (reader->node.output_count == 1 && n->inputs[k] == reader->outputs[0]) {
            return c->node;
        }
    }
    return -1;
}

static bool is_of(const onnx_file *f, const onnx_integers *integers, const onnx_count *c)
{
    return integers->tensor == c->tensor && integers->attribute == c->attribute &&
           (c->attribute != NULL || (integers->node == c->reader && integers->input == c->input &&
                                     integers->counter == counter_of(f, c)));
}

static size_t integer_count(const onnx_file *f, const onnx_integers *one)
{
    const tensor_view *view = one->tensor < 0 ? NULL : &f->tensors[one->tensor].view;
    return view != NULL                            ? view->bytes / (dtype_bits(view->dtype) / 8)
           : one->attribute->kind == ONNX_INTEGERS ? (size_t)one->attribute->count
                                                   : 1;
}

/* Adds the integers among which one counts channels, as they are. */
static grail_status add_integers(const onnx_file *f, const onnx_count *c, onnx_integer_list *list)
{
    const onnx_attribute *a = c->attribute;
    const onnx_tensor *t = c->tensor < 0 ? NULL : &f->tensors[c->tensor];
    CHECK(memory_reserve(&list->items, (size_t)list->count + 1, sizeof list->items[0]));
    onnx_integers *one = &list->items[list->count++];
    *one = (onnx_integers){.tensor = c->tensor,
                           .node = a != NULL ? c->node : c->reader,
                           .attribute = a,
                           .input = c->input,
                           .counter = counter_of(f, c)};
    const size_t count = integer_count(f, one);
    CHECK(memory_new(&one->values, count, sizeof one->values[0]));
    if (t != NULL) {
        return onnx_tensor_integers(t, one->values);
    }
    memcpy(one->values, a->kind == ONNX_INTEGERS ? a->integers : &a->integer,
           count * sizeof one->values[0]);
    return GRAIL_OK;
}

/* *out <- where the integer that counts channels is in the list. */
static grail_status count_place(const onnx_file *f, const onnx_count *c, onnx_integer_list *list,
                                int64_t **out)
{
    int64_t i = 0;
    while (i < list->count && !is_of(f, &list->items[i], c)) {
        i++;
    }
    CHECK(i == list->count ? add_integers(f, c, list) : GRAIL_OK);
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

/* The share of a Linear is that of what is made of it. Its parts must keep the same share. Parts of
 * each head leave the heads what the numbers count. */
static grail_status share_of_linear(const onnx_reading *r, const int64_t *dense,
                                    const int64_t *narrow, int linear, bool *has_parts, share *out)
{
    const int value = r->linears[linear].value;
    bool found = false;
    *has_parts = false;
    *out = value == GRAPH_NONE ? (share){1, 1} : (share){narrow[value], dense[value]};
    for (int i = linear + 1; i < r->linear_count; i++) {
        bool inner = false;
        share part = {1, 1};
        if (r->linears[i].parent == linear) {
            CHECK(share_of_linear(r, dense, narrow, i, &inner, &part));
            if (found && !are_equal(*out, part)) {
                return onnx_misfit("counts channels of parts, which keep other numbers");
            }
            *out = part;
            found = true;
            *has_parts = r->linears[i].run == 0;
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

/* The same of a number that is a bound of a run. */
static share share_of_run(const onnx_reading *r, const graph *narrowed, const onnx_count *c)
{
    const slice_attributes *all = &r->g->nodes[c->slice - 1].slice;
    const slice_attributes *left = &narrowed->nodes[c->slice - 1].slice;
    return c->is_end ? (share){left->first + left->length, all->first + all->length}
                     : (share){left->first, all->first};
}

/* From the share of channels to that of their groups: some channels of each, or some groups, stay.
 */
static share share_of_groups(const onnx_reading *r, const graph *narrowed, const onnx_count *c,
                             share channels)
{
    const int weight = c->grouped_by - 1;
    return weight < 0 ? channels
                      : (share){channels.left / narrowed->parameters[weight].shape[1],
                                channels.all / r->g->parameters[weight].shape[1]};
}

/* *out <- the narrow number; what is computed must be right by itself. */
static grail_status narrow_number(const onnx_reading *r, const graph *narrowed, const onnx_count *c,
                                  const int64_t *dense, const int64_t *narrow,
                                  onnx_integer_list *list, int64_t *out)
{
    int64_t *place = NULL;
    share wanted;
    share computed;
    CHECK(share_of(r, dense, narrow, &c->of, &wanted));
    wanted = c->slice > 0 ? share_of_run(r, narrowed, c) : share_of_groups(r, narrowed, c, wanted);
    CHECK(share_of(r, dense, narrow, &c->by, &computed));
    *out = 0;
    if (is_computed(c)) {
        return are_equal(wanted, computed)
                   ? GRAIL_OK
                   : onnx_misfit("counts channels by a number that is computed from others, which "
                                 "are not narrowed alike");
    }
    CHECK(count_place(r->file, c, list, &place));
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

/* Puts the narrow numbers in the place of the dense ones; one that two nodes count by, by way of
 * the same node that reads it, must suit both. */
static grail_status put_numbers(const onnx_reading *r, const int64_t *numbers, bool *differ,
                                onnx_integer_list *list)
{
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < r->count_count; i++) {
            const onnx_count *c = &r->counts[i];
            int64_t *place = NULL;
            if (is_computed(c)) {
                continue;
            }
            CHECK(count_place(r->file, c, list, &place));
            if (round == 1 && *place != numbers[i]) {
                return error_set(GRAIL_ERROR_UNSUPPORTED,
                                 "the constant '%s' counts channels for several nodes, which keep "
                                 "other numbers; give each a constant of its own",
                                 c->tensor < 0 ? c->attribute->name
                                               : r->file->tensors[c->tensor].view.name);
            }
            *differ = *differ || *place != numbers[i];
            *place = numbers[i];
        }
    }
    return GRAIL_OK;
}

static bool has_values(const onnx_file *f, const onnx_integers *one, const int64_t *values)
{
    return memcmp(one->values, values, integer_count(f, one) * sizeof values[0]) == 0;
}

static bool is_listed(const onnx_integer_list *list, int64_t tensor, int64_t reader, int input)
{
    for (int64_t i = 0; i < list->count; i++) {
        const onnx_integers *one = &list->items[i];
        if (one->tensor == tensor && one->node == reader && one->input == input) {
            return true;
        }
    }
    return false;
}

static bool is_among(const onnx_file *f, int64_t tensor, const int64_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (values[i] >= 0 && f->values[values[i]].tensor == tensor) {
            return true;
        }
    }
    return false;
}

/* Whether a tensor is read for something else than the numbers in the list. */
static bool has_others(const onnx_file *f, const onnx_integer_list *list, int64_t tensor)
{
    bool found = is_among(f, tensor, f->outputs, f->output_count);
    for (int64_t i = 0; i < f->node_count && !found; i++) {
        const onnx_file_node *n = &f->nodes[i];
        found = is_among(f, tensor, n->captures, n->capture_count);
        for (int k = 0; k < n->node.input_count && !found; k++) {
            found = is_among(f, tensor, &n->inputs[k], 1) && !is_listed(list, tensor, i, k);
        }
    }
    return found;
}

/* A name that no value has. */
static grail_status free_name(const onnx_file *f, const char *like, int64_t *number, char **out)
{
    char name[TENSOR_LONGEST_NAME + 32];
    onnx_free_name(f, like, number, name, sizeof name);
    return name[0] != '\0'
               ? memory_copy_string(out, name)
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "'%.100s...' counts channels for several nodes, which keep other "
                           "numbers, and its name is too long for a second one",
                           like);
}

/* The first that stands for others of a list: those of the tensor, or those of the input. */
static const onnx_integers *first_of(const onnx_integer_list *list, const onnx_integers *like,
                                     bool of_input)
{
    for (int64_t i = 0; i < list->count; i++) {
        const onnx_integers *one = &list->items[i];
        const bool is_there = one->node == like->node && one->input == like->input;
        if (one->tensor == like->tensor && one->list == NULL && (is_there || !of_input)) {
            return one;
        }
    }
    return like;
}

/* Counters whose numbers differ from those of the first one that a node makes a list for get a list
 * of their own. */
static grail_status part_lists(const onnx_file *f, onnx_integer_list *list, int64_t *number)
{
    for (int64_t i = 0; i < list->count; i++) {
        onnx_integers *one = &list->items[i];
        const onnx_integers *first = one->tensor < 0 ? one : first_of(list, one, true);
        if (one->list != NULL || first->counter == one->counter || one->counter < 0 ||
            has_values(f, one, first->values)) {
            continue;
        }
        const char *made = f->values[f->nodes[one->node].outputs[0]].name;
        CHECK(free_name(f, made, number, &one->list));
        for (int64_t k = 0; k < list->count; k++) {
            onnx_integers *other = &list->items[k];
            if (k != i && other->tensor >= 0 && other->node == one->node &&
                other->counter == one->counter) {
                memory_free(other->list);
                other->list = NULL;
                CHECK(memory_copy_string(&other->list, one->list));
            }
        }
    }
    return GRAIL_OK;
}

/* A node for which a tensor counts other channels than for others gets one of its own. The tensor
 * itself changes for the first, but where it is read for something else, too. */
static grail_status part_integers(const onnx_file *f, onnx_integer_list *list)
{
    grail_status status = GRAIL_OK;
    int64_t number = 1;
    int64_t *own = NULL; /* values of a tensor as the file has them */
    TRY(part_lists(f, list, &number));
    for (int64_t i = 0; i < list->count; i++) {
        onnx_integers *one = &list->items[i];
        if (one->tensor < 0) {
            continue;
        }
        const onnx_integers *first = first_of(list, one, false);
        const bool stays = first->list != NULL || has_others(f, list, one->tensor);
        memory_free(own);
        own = NULL;
        TRY(memory_new(&own, integer_count(f, one), sizeof own[0]));
        TRY(onnx_tensor_integers(&f->tensors[one->tensor], own));
        if (has_values(f, one, stays ? own : first->values)) {
            one->is_same = one->list == NULL && (stays || one != first);
            continue;
        }
        if (one->list == NULL && first_of(list, one, true) != one) {
            one->is_same = true; /* as the first counter of the same list */
            continue;
        }
        TRY(free_name(f, f->tensors[one->tensor].view.name, &number, &one->name));
    }
out:
    memory_free(own);
    return status;
}

grail_status onnx_set_counts(onnx_reading *r, const graph *narrowed, bool *differ,
                             onnx_integer_list *list)
{
    grail_status status = GRAIL_OK;
    int64_t *dense = NULL;
    int64_t *narrow = NULL;
    int64_t *numbers = NULL;
    TRY(memory_new(&dense, (size_t)r->g->value_count, sizeof dense[0]));
    TRY(memory_new(&numbers, (size_t)r->count_count + 1, sizeof numbers[0]));
    TRY(memory_new(&narrow, (size_t)narrowed->value_count, sizeof narrow[0]));
    TRY(graph_widths(r->g, dense));
    TRY(graph_widths(narrowed, narrow));
    for (int64_t i = 0; i < r->count_count; i++) {
        r->node = &r->file->nodes[r->counts[i].node];
        TRY(onnx_in_node(
            r, narrow_number(r, narrowed, &r->counts[i], dense, narrow, list, &numbers[i])));
    }
    TRY(put_numbers(r, numbers, differ, list));
    TRY(part_integers(r->file, list));
out:
    memory_free(dense);
    memory_free(narrow);
    memory_free(numbers);
    return status;
}

/* -- channels that stay ------------------------------------------------------------------------ */

static int find_origin(const int *origin, int value)
{
    while (origin[value] != value) {
        value = origin[value];
    }
    return value;
}

/* origin[values] <- another value with the same channels, by nodes that keep or join them; of those
 * that have the same ones one is its own. */
static void find_origins(const graph *g, int *origin)
{
    for (int v = 0; v < g->value_count; v++) {
        origin[v] = v;
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        const axis_rule rule = operator_of(n)->axis;
        const int count = rule == AXIS_CARRIES                      ? 1
                          : rule == AXIS_JOINS || rule == AXIS_SUMS ? n->input_count
                                                                    : 0;
        for (int k = 0; k < count; k++) {
            origin[find_origin(origin, n->output)] = find_origin(origin, n->inputs[k]);
        }
    }
}

/* Pins what a number follows: the value, that of a Linear, or those of its parts. */
static grail_status pin_channels(onnx_reading *r, const onnx_channels *c)
{
    bool has_parts = false;
    const int value = c->linear == 0 ? c->value : r->linears[c->linear].value;
    for (int i = c->linear + 1; c->linear != 0 && i < r->linear_count; i++) {
        if (r->linears[i].parent == c->linear) {
            has_parts = true;
            const bool outer = r->linears[i].run == 0 ? c->second : c->outer;
            const onnx_channels part = {.value = GRAPH_NONE, .linear = i, .outer = outer};
            CHECK(pin_channels(r, &part));
        }
    }
    return has_parts || !c->outer || value == GRAPH_NONE ? GRAIL_OK : graph_pin(r->g, value);
}

static bool is_alike(const onnx_reading *r, const onnx_count *c, const int *origin)
{
    const int counted = c->of.linear == 0 ? c->of.value : r->linears[c->of.linear].value;
    const int by = c->by.linear == 0 ? c->by.value : r->linears[c->by.linear].value;
    return c->of.outer == c->by.outer &&
           ((c->of.linear != 0 && c->of.linear == c->by.linear) ||
            (counted != GRAPH_NONE && by != GRAPH_NONE &&
             find_origin(origin, counted) == find_origin(origin, by)));
}

/* The class that all channels are in which a number counts, of a value or of all parts of a Linear;
 * NULL: there are several, or none. */
static const segment *class_of(const onnx_reading *r, const axes *a, const onnx_channels *c)
{
    const segment *found = NULL;
    const int value = c->linear == 0 ? c->value : r->linears[c->linear].value;
    if (value != GRAPH_NONE) {
        found = axes_class_of(a, a->of[value]);
        for (int s = a->of[value]; s < a->of[value + 1]; s++) {
            found = found == axes_class_of(a, s) ? found : NULL;
        }
        return found;
    }
    bool differ = false;
    for (int i = c->linear + 1; c->linear != 0 && i < r->linear_count; i++) {
        const onnx_channels part = {.value = GRAPH_NONE, .linear = i};
        if (r->linears[i].parent == c->linear) {
            const segment *own = class_of(r, a, &part);
            differ = differ || own == NULL || (found != NULL && found != own);
            found = own;
        }
    }
    return differ ? NULL : found;
}

/* Whether a number and what it is computed from are of channels that are cut together, such as the
 * halves of a gated map and all of it. */
static bool go_together(const onnx_reading *r, const axes *a, const onnx_count *c)
{
    const segment *counted = class_of(r, a, &c->of);
    return c->of.outer == c->by.outer && counted != NULL && counted == class_of(r, a, &c->by);
}

/* Runs whose bounds nothing could tell otherwise: parts of channels that are cut together, as many
 * of each part, keep the same share of them, as computed numbers and equal parts do. */
static void free_runs(const onnx_reading *r, const axes *a)
{
    for (int i = 0; i < r->g->node_count; i++) {
        node *n = &r->g->nodes[i];
        if (operator_of(n)->axis != AXIS_SLICE || !n->slice.stays) {
            continue;
        }
        const onnx_channels all = {.value = n->inputs[0]};
        const segment *class = class_of(r, a, &all);
        bool fits = class != NULL && n->slice.may_follow;
        for (int64_t k = 0; k < r->count_count && fits; k++) {
            const onnx_count *c = &r->counts[k];
            fits = c->slice != i + 1 || !is_computed(c) || class_of(r, a, &c->by) == class;
        }
        n->slice.stays = !fits;
    }
}

grail_status onnx_pin_computed(onnx_reading *r)
{
    grail_status status = GRAIL_OK;
    axes a = {0};
    int *origin = NULL;
    TRY(memory_new(&origin, (size_t)r->g->value_count, sizeof origin[0]));
    find_origins(r->g, origin);
    TRY(axes_init(&a, r->g, GQA_KV_GROUPS, false));
    free_runs(r, &a);
    for (int64_t i = 0; i < r->count_count; i++) {
        const onnx_count *c = &r->counts[i];
        if (!is_computed(c) || !onnx_is_channels(&c->by) || is_alike(r, c, origin)) {
            continue;
        }
        const bool is_free = c->slice > 0 && !r->g->nodes[c->slice - 1].slice.stays;
        if (!is_free && !go_together(r, &a, c)) {
            TRY(pin_channels(r, &c->of));
            TRY(pin_channels(r, &c->by));
        }
    }
out:
    axes_fini(&a);
    memory_free(origin);
    return status;
}

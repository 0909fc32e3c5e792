#include "arch/onnx_trials.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_regions.h"

enum { MOST_TRIED = 1 << 20 }; /* positions of a sample */

/* The part of a network that makes a value. */
typedef struct part {
    region_parts region;
    region_positions at[REGION_MOST_INPUTS];
    int64_t *nodes;          /* owned */
    region_numbers *numbers; /* owned */
} part;

static void part_fini(part *p)
{
    memory_free(p->nodes);
    memory_free(p->numbers);
}

/* Sizes as so many positions of one sample have them; false: they are not all known. */
static bool sizes_at(const onnx_reading *r, int64_t value, int64_t length, region_numbers *out)
{
    const onnx_numbers *n = &r->numbers[value];
    bool are_known = n->is_known && n->rank == 1 && n->count <= REGION_MOST_NUMBERS;
    *out = (region_numbers){.value = value, .rank = n->rank, .count = n->count};
    for (int i = 0; are_known && i < n->count; i++) {
        const onnx_number *x = &n->items[i];
        const bool is_open = x->factor % ONNX_OPEN_LENGTH == 0;
        are_known = !x->is_open && !x->is_real;
        out->items[i] = is_open ? x->factor / ONNX_OPEN_LENGTH * length : x->factor;
    }
    return are_known;
}

static grail_status misfit_of_input(const onnx_reading *r, int64_t value)
{
    return onnx_misfit("'%.100s' depends on more than positions", r->file->values[value].name);
}

/* What leads to a value, which other values of the graph do not. */
static grail_status want(const onnx_reading *r, const int64_t *values, int64_t count, int64_t given,
                         bool *is_wanted)
{
    for (int64_t i = 0; i < count; i++) {
        const onnx_known *k = values[i] < 0 ? NULL : &r->values[values[i]];
        const int64_t maker = k == NULL ? -1 : r->file->values[values[i]].node;
        if (maker >= 0 && values[i] != given && !onnx_is_opaque(r, maker) &&
            (k->value != GRAPH_NONE || k->linear != 0)) {
            return misfit_of_input(r, values[i]);
        }
        if (k != NULL) {
            is_wanted[values[i]] = true;
        }
    }
    return GRAIL_OK;
}

static grail_status add_input(part *p, const region_value *v, region_positions at)
{
    if (p->region.input_count == REGION_MOST_INPUTS) {
        return onnx_misfit("depends on more than %d inputs", REGION_MOST_INPUTS);
    }
    p->at[p->region.input_count] = at;
    p->region.inputs[p->region.input_count++] = *v;
    return GRAIL_OK;
}

/* All that leads to the value, from inputs, constants and sizes that are known. */
static grail_status find_nodes(const onnx_reading *r, const onnx_trial *t, bool *is_wanted, part *p)
{
    const onnx_file *f = r->original;
    int64_t first = f->node_count;
    is_wanted[t->value] = true;
    for (int64_t i = f->node_count - 1; i >= 0; i--) {
        const onnx_file_node *n = &f->nodes[i];
        bool leads = false;
        for (int k = 0; k < n->node.output_count; k++) {
            const int64_t made = n->outputs[k];
            leads = leads || (made >= 0 && made != t->given && is_wanted[made]);
        }
        region_numbers *sizes = &p->numbers[p->region.number_count];
        if (leads && onnx_node_is(n, "Shape") && sizes_at(r, n->outputs[0], t->length, sizes)) {
            p->region.number_count++;
        } else if (leads) {
            CHECK(want(r, n->inputs, n->node.input_count, t->given, is_wanted));
            CHECK(want(r, n->captures, n->capture_count, t->given, is_wanted));
            p->nodes[--first] = i;
        }
    }
    p->region.node_count = f->node_count - first;
    p->region.nodes = p->nodes + first;
    for (int64_t i = 0; i < f->input_count; i++) {
        const region_value v = {f->inputs[i], REGION_IDS, 1, 1, false};
        const bool is_read = is_wanted[v.value] && f->values[v.value].tensor < 0;
        CHECK(!is_read ? GRAIL_OK
              : r->g->input_kind == INPUT_TOKENS
                  ? add_input(p, &v, (region_positions){t->length, 1})
                  : misfit_of_input(r, v.value));
    }
    return t->given < 0 ? GRAIL_OK : add_input(p, &t->form, t->at);
}

static grail_status find_part(const onnx_reading *r, const onnx_trial *t, part *p)
{
    grail_status status = GRAIL_OK;
    bool *is_wanted = NULL; /* of values */
    TRY(memory_new(&is_wanted, (size_t)r->file->value_count, sizeof is_wanted[0]));
    TRY(memory_new(&p->nodes, (size_t)r->file->node_count, sizeof p->nodes[0]));
    TRY(memory_new(&p->numbers, (size_t)r->file->node_count + 1, sizeof p->numbers[0]));
    p->region = (region_parts){.file = r->original, .nodes = p->nodes, .numbers = p->numbers};
    TRY(find_nodes(r, t, is_wanted, p));
out:
    memory_free(is_wanted);
    return status;
}

/* out[length] <- integers, truths or real numbers of an input, for one sample. */
static void fill_input(const onnx_reading *r, int64_t value, const onnx_trial *t, void *out)
{
    const onnx_known *k = &r->values[value];
    const int element = r->original->values[value].element;
    const int64_t padding = r->g->inputs[k->input].padding;
    const int64_t id = padding == 0 ? 2 : 0;
    const int64_t other = padding == 1 ? 2 : 1;
    for (int64_t i = 0; i < t->length; i++) {
        const int64_t number = k->form == ONNX_BOUNDED       ? 1
                               : t->alternates && i % 2 != 0 ? other
                                                             : id;
        if (element == ONNX_INT64) {
            ((int64_t *)out)[i] = number;
        } else if (element == ONNX_INT32) {
            ((int32_t *)out)[i] = (int32_t)number;
        } else if (element == ONNX_FLOAT) {
            ((float *)out)[i] = (float)number;
        } else {
            ((unsigned char *)out)[i] = number != 0;
        }
    }
}

/* A constant of floats needs no runtime. */
static grail_status copy_constant(const onnx_reading *r, int64_t value, tensor_view *out)
{
    enum { MOST_VALUES = 1 << 28 };
    const onnx_tensor *t = &r->file->tensors[r->file->values[value].tensor];
    int64_t count = 0;
    float *values = NULL;
    if (t->view.dtype == GRAIL_DTYPE_COUNT || !dtype_is_float(t->view.dtype) ||
        !shape_elements(t->view.rank, t->view.shape, &count) || count < 1 || count > MOST_VALUES) {
        return onnx_misfit("reads the constant '%.100s', which is no table of numbers",
                           t->view.name);
    }
    CHECK(memory_new(&values, (size_t)count, sizeof values[0]));
    *out = t->view;
    out->dtype = GRAIL_DTYPE_F32;
    out->data = values;
    return onnx_tensor_f32(t, values);
}

int64_t onnx_short_length(const onnx_reading *r)
{
    return r->length == ONNX_OPEN_LENGTH ? ONNX_SHORTEST_TRIED : r->length;
}

void onnx_note_longest(onnx_reading *r, int64_t length)
{
    if (length > 0 && r->length == ONNX_OPEN_LENGTH && length < r->longest) {
        r->longest = length;
    }
}

grail_status onnx_try(const onnx_reading *r, const onnx_trial *t, tensor_view *out)
{
    grail_status status = GRAIL_OK;
    part p = {0};
    int64_t *owned[REGION_MOST_INPUTS] = {NULL};
    const void *inputs[REGION_MOST_INPUTS];
    *out = (tensor_view){0};
    if (r->file->values[t->value].tensor >= 0) {
        return copy_constant(r, t->value, out);
    }
    if (t->length > MOST_TRIED) {
        return onnx_misfit("is of %lld positions, of which at most %d are tried",
                           (long long)t->length, MOST_TRIED);
    }
    TRY(find_part(r, t, &p));
    for (int i = 0; i < p.region.input_count; i++) {
        inputs[i] = t->values;
        if (p.region.inputs[i].rank == REGION_IDS) {
            TRY(memory_new(&owned[i], (size_t)t->length, sizeof owned[i][0]));
            fill_input(r, p.region.inputs[i].value, t, owned[i]);
            inputs[i] = owned[i];
        }
    }
    TRY(region_values(&p.region, p.at, inputs, 1, &t->value, out));
out:
    for (int i = 0; i < REGION_MOST_INPUTS; i++) {
        memory_free(owned[i]);
    }
    part_fini(&p);
    return status;
}

grail_status onnx_try_long(const onnx_reading *r, int64_t value, int64_t most, int64_t *length,
                           tensor_view *out)
{
    const bool is_open = r->length == ONNX_OPEN_LENGTH;
    const int64_t longest = most < ONNX_LONGEST_TRIED ? most : ONNX_LONGEST_TRIED;
    onnx_trial t = {.value = value, .given = -1, .length = is_open ? longest : r->length};
    grail_status status = onnx_try(r, &t, out);
    /* The file's own tables may have fewer. */
    while (status == GRAIL_ERROR_UNSUPPORTED && is_open && t.length / 2 >= ONNX_SHORTEST_TRIED &&
           ort_load() == GRAIL_OK) {
        t.length /= 2;
        status = onnx_try(r, &t, out);
    }
    *length = t.length;
    return status;
}

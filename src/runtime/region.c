#include "runtime/region.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "format/tensor_file.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SIZE = 320 };

struct region {
    region_parts parts; /* its lists are owned */
    char *path, *reason;
    int64_t *nodes;
    region_numbers *numbers;
    char name[NAME_SIZE];
    pthread_mutex_t mutex; /* of what follows */
    ort_session *session;
    pid_t process; /* that opened it: threads of a session do not pass to a fork */
    bool is_measured;
    region_positions in[REGION_MOST_INPUTS + 1], out; /* of the last measurement */
};

/* -- what it is -------------------------------------------------------------------------------- */

grail_status region_create(const region_parts *parts, region **out)
{
    grail_status status = GRAIL_OK;
    region *r = NULL;
    TRY(memory_new(&r, 1, sizeof *r));
    pthread_mutex_init(&r->mutex, NULL);
    r->parts = *parts;
    TRY(memory_copy_string(&r->path, parts->path));
    TRY(memory_copy_string(&r->reason, parts->reason));
    TRY(memory_new(&r->nodes, (size_t)parts->node_count, sizeof r->nodes[0]));
    memcpy(r->nodes, parts->nodes, (size_t)parts->node_count * sizeof r->nodes[0]);
    TRY(memory_new(&r->numbers, (size_t)parts->number_count + 1, sizeof r->numbers[0]));
    for (int64_t i = 0; i < parts->number_count; i++) {
        r->numbers[i] = parts->numbers[i];
    }
    const onnx_node *n = &parts->file->nodes[parts->first].node;
    const bool has_name = *n->name != '\0';
    snprintf(r->name, sizeof r->name, "node %s'%.160s' (%.100s)", has_name ? "" : "of ",
             has_name              ? n->name
             : n->output_count > 0 ? n->outputs[0]
                                   : "",
             n->operator_name);
    *out = r;
    r = NULL;
out:
    region_free(r);
    return status;
}

void region_free(region *r)
{
    if (r == NULL) {
        return;
    }
    if (r->process == getpid()) {
        ort_session_close(r->session);
    }
    pthread_mutex_destroy(&r->mutex);
    memory_free(r->path);
    memory_free(r->reason);
    memory_free(r->nodes);
    memory_free(r->numbers);
    memory_free(r);
}

const char *region_name(const region *r)
{
    return r->name;
}

const char *region_reason(const region *r)
{
    return r->reason;
}

int64_t region_node_count(const region *r)
{
    return r->parts.node_count;
}

int64_t region_width(const region *r)
{
    return r->parts.output.width;
}

int64_t region_input_width(const region *r, int input)
{
    return r->parts.inputs[input].width;
}

bool region_asks_size(const region *r)
{
    return r->parts.asks_size;
}

const char *region_ids_name(const region *r, int input, int *element)
{
    const onnx_value *v = &r->parts.file->values[r->parts.inputs[input].value];
    *element = v->element;
    return r->parts.inputs[input].rank == REGION_IDS ? v->name : NULL;
}

/* -- sessions ---------------------------------------------------------------------------------- */

static grail_status open_session(const region_parts *p, int64_t output_count,
                                 const int64_t outputs[], ort_session **out)
{
    grail_status status = GRAIL_OK;
    buffer model;
    buffer_init(&model, (size_t)ONNX_LARGEST_FILE);
    TRY(ort_load());
    TRY(region_model_put(p->file, p->node_count, p->nodes, p->number_count, p->numbers,
                         p->input_count, p->inputs, output_count, outputs, &model));
    TRY(ort_session_open(model.bytes, model.size, out));
out:
    buffer_fini(&model);
    return status;
}

static grail_status in_region(const region *r, grail_status status)
{
    return error_in(status, "%s: %s", r->path, r->name);
}

static grail_status start(region *r)
{
    if (r->session != NULL && r->process == getpid()) {
        return GRAIL_OK;
    }
    region_parts parts = r->parts;
    parts.nodes = r->nodes;
    parts.numbers = r->numbers;
    r->session = NULL; /* the other process has it */
    CHECK(open_session(&parts, 1, &parts.output.value, &r->session));
    r->process = getpid();
    return GRAIL_OK;
}

grail_status region_start(region *r)
{
    pthread_mutex_lock(&r->mutex);
    const grail_status status = in_region(r, start(r));
    pthread_mutex_unlock(&r->mutex);
    return status;
}

/* -- layouts ----------------------------------------------------------------------------------- */

typedef struct transposition {
    int64_t rows, columns; /* of a sample */
    const float *from;
    float *to;
} transposition;

static void transpose_samples(int64_t begin, int64_t end, void *context)
{
    const transposition *t = context;
    for (int64_t s = begin; s < end; s++) {
        const float *from = t->from + s * t->rows * t->columns;
        float *to = t->to + s * t->rows * t->columns;
        for (int64_t c = 0; c < t->columns; c++) {
            for (int64_t r = 0; r < t->rows; r++) {
                to[c * t->rows + r] = from[r * t->columns + c];
            }
        }
    }
}

/* to[samples, columns, rows] <- from[samples, rows, columns] */
static void transpose(int64_t samples, int64_t rows, int64_t columns, const float *from, float *to)
{
    transposition t = {rows, columns, from, to};
    parallel_for(samples, 1, transpose_samples, &t);
}

/* The first dimension of positions, of which there are rank - 2. */
static int first_position(const region_value *v)
{
    return v->channels == 1 ? 2 : 1;
}

static ort_tensor tensor_of(const onnx_file *file, const region_value *v, int64_t samples,
                            region_positions at)
{
    const int first = first_position(v);
    ort_tensor t = {.name = file->values[v->value].name,
                    .element = ONNX_FLOAT,
                    .is_half = v->is_half,
                    .rank = v->rank,
                    .shape = {samples}};
    if (v->rank == REGION_IDS) {
        t.element = file->values[v->value].element;
        t.rank = file->values[v->value].rank;
        t.shape[1] = at.height * at.width * v->width;
        return t;
    }
    t.shape[v->channels] = v->width;
    if (v->rank == REGION_TOKENS) {
        t.shape[first] = at.height * at.width;
    } else if (v->rank == REGION_IMAGE) {
        t.shape[first] = at.height;
        t.shape[first + 1] = at.width;
    }
    return t;
}

static grail_status misshapen(const ort_tensor *found, const ort_tensor *expected)
{
    char texts[2][64];
    const bool is_tensor = found->rank >= 0;
    return error_set(
        GRAIL_ERROR_SHAPE,
        "ONNX Runtime made a value of type %d and shape %s of '%s', expected FLOAT %s; what the "
        "file declares of it is wrong, or the size of a batch is fixed inside: export the network "
        "again",
        found->element,
        is_tensor ? shape_text(found->rank, found->shape, texts[0], sizeof texts[0]) : "unknown",
        found->name, shape_text(expected->rank, expected->shape, texts[1], sizeof texts[1]));
}

static bool fits(const ort_tensor *found, const ort_tensor *expected)
{
    return found->element == ONNX_FLOAT && found->is_half == expected->is_half &&
           found->rank == expected->rank &&
           memcmp(found->shape, expected->shape,
                  (size_t)expected->rank * sizeof expected->shape[0]) == 0;
}

/* -- running ----------------------------------------------------------------------------------- */

/* Whether its values lie otherwise than the rows of grail: channels are before positions. */
static bool is_turned(const region_value *v)
{
    return v->rank > REGION_FLAT && v->channels == 1;
}

/* Values as the library wants them. */
static grail_status hold_inputs(const region *r, int64_t samples, const region_positions at[],
                                const void *const inputs[], ort_tensor tensors[], float *owned[])
{
    for (int i = 0; i < r->parts.input_count; i++) {
        const region_value *v = &r->parts.inputs[i];
        const int64_t rows = at[i].height * at[i].width;
        tensors[i] = tensor_of(r->parts.file, v, samples, at[i]);
        tensors[i].values = inputs[i];
        if (inputs[i] == NULL) { /* memory that nobody touches */
            CHECK(memory_new(&owned[i], (size_t)(samples * rows * v->width), sizeof(float)));
            tensors[i].values = owned[i];
        } else if (rows != 1 && v->width != 1 && is_turned(v)) {
            CHECK(memory_new_unset(&owned[i], (size_t)(samples * rows * v->width), sizeof(float)));
            transpose(samples, rows, v->width, inputs[i], owned[i]);
            tensors[i].values = owned[i];
        }
    }
    return GRAIL_OK;
}

/* The output of so many samples; *made is the library's: ort_tensors_fini. */
static grail_status compute(region *r, int64_t samples, const region_positions at[],
                            const void *const inputs[], ort_tensor *made)
{
    grail_status status = GRAIL_OK;
    ort_tensor tensors[REGION_MOST_INPUTS + 1];
    float *owned[REGION_MOST_INPUTS + 1] = {NULL};
    *made = (ort_tensor){.name = r->parts.file->values[r->parts.output.value].name};
    TRY(hold_inputs(r, samples, at, inputs, tensors, owned));
    TRY(ort_session_run(r->session, r->parts.input_count, tensors, 1, made));
out:
    for (int i = 0; i < r->parts.input_count; i++) {
        memory_free(owned[i]);
    }
    return status;
}

static grail_status run_samples(region *r, int64_t samples, const region_positions at[],
                                const void *const inputs[], region_positions made, float *out)
{
    grail_status status = GRAIL_OK;
    const region_value *v = &r->parts.output;
    const ort_tensor expected = tensor_of(r->parts.file, v, samples, made);
    ort_tensor found;
    TRY(compute(r, samples, at, inputs, &found));
    if (!fits(&found, &expected)) {
        TRY(misshapen(&found, &expected));
    }
    if (!is_turned(v)) {
        memcpy(out, found.values,
               (size_t)(samples * made.height * made.width * v->width) * sizeof *out);
    } else {
        transpose(samples, v->width, made.height * made.width, found.values, out);
    }
out:
    ort_tensors_fini(1, &found);
    return status;
}

grail_status region_run(region *r, int64_t samples, const region_positions in[],
                        const void *const inputs[], region_positions made, float *out)
{
    CHECK(region_start(r));
    const int64_t step = r->parts.takes_one_sample ? 1 : samples;
    for (int64_t s = 0; s < samples; s += step) {
        const void *at[REGION_MOST_INPUTS + 1] = {NULL};
        for (int i = 0; i < r->parts.input_count && inputs[i] != NULL; i++) {
            const ort_tensor one = tensor_of(r->parts.file, &r->parts.inputs[i], 1, in[i]);
            at[i] = (const unsigned char *)inputs[i] +
                    (size_t)(s * in[i].height * in[i].width * r->parts.inputs[i].width) *
                        region_element_bytes(one.element);
        }
        CHECK(
            in_region(r, run_samples(r, step, in, at, made,
                                     out + s * made.height * made.width * r->parts.output.width)));
    }
    return GRAIL_OK;
}

/* -- positions --------------------------------------------------------------------------------- */

static bool same(region_positions a, region_positions b)
{
    return a.height == b.height && a.width == b.width;
}

/* Whether the file declares numbers for both. */
static bool declares(const region *r, const region_value *v, region_positions *out)
{
    const onnx_value *d = &r->parts.file->values[v->value];
    const int first = first_position(v);
    *out = (region_positions){1, 1};
    if (v->rank > REGION_FLAT) {
        *out =
            (region_positions){d->shape[first], v->rank == REGION_IMAGE ? d->shape[first + 1] : 1};
    }
    return v->rank < REGION_TOKENS || (d->rank == v->rank && out->height > 0 && out->width > 0);
}

static bool is_declared(const region *r, const region_positions in[], region_positions *out)
{
    bool all = declares(r, &r->parts.output, out);
    for (int i = 0; i < r->parts.input_count; i++) {
        region_positions declared;
        all = all && declares(r, &r->parts.inputs[i], &declared) &&
              (same(declared, in[i]) || (r->parts.inputs[i].rank == REGION_TOKENS &&
                                         declared.height == in[i].height * in[i].width));
    }
    return all;
}

static bool is_measured(const region *r, const region_positions in[])
{
    bool all = r->is_measured;
    for (int i = 0; i < r->parts.input_count; i++) {
        all = all && same(r->in[i], in[i]);
    }
    return all;
}

/* Elements of a sample, of which nothing bounds what a file says. */
static grail_status elements_of(const region_value *v, region_positions at, size_t samples,
                                size_t *out)
{
    return size_multiply((size_t)at.height, (size_t)at.width, out) &&
                   size_multiply(*out, (size_t)v->width, out) &&
                   size_multiply(*out, samples, out) && *out <= PTRDIFF_MAX / sizeof(float)
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_MEMORY, "an image of %lld x %lld is too large to address",
                           (long long)at.height, (long long)at.width);
}

/* Runs it on one sample of zeros. */
static grail_status try_out(region *r, const region_positions in[])
{
    grail_status status = GRAIL_OK;
    float *zeros = NULL;
    const void *inputs[REGION_MOST_INPUTS + 1];
    ort_tensor made = {0};
    size_t largest = 1;
    for (int i = 0; i < r->parts.input_count; i++) {
        size_t size = 0;
        CHECK(elements_of(&r->parts.inputs[i], in[i], 1, &size));
        largest = size > largest ? size : largest;
    }
    TRY(memory_new(&zeros, 2 * largest, sizeof zeros[0])); /* integers may be twice as wide */
    for (int i = 0; i < r->parts.input_count; i++) {
        inputs[i] = zeros;
        r->in[i] = in[i];
    }
    TRY(start(r));
    TRY(compute(r, 1, in, inputs, &made));
    ort_tensor expected = tensor_of(r->parts.file, &r->parts.output, 1, (region_positions){1, 1});
    const int first = first_position(&r->parts.output);
    const int dimensions = expected.rank - REGION_FLAT; /* of positions */
    for (int d = first; made.rank == expected.rank && d < first + dimensions; d++) {
        expected.shape[d] = made.shape[d];
    }
    if (!fits(&made, &expected)) {
        TRY(misshapen(&made, &expected));
    }
    r->out =
        (region_positions){expected.shape[first], dimensions == 1 ? 1 : expected.shape[first + 1]};
    r->is_measured = true;
out:
    ort_tensors_fini(1, &made);
    memory_free(zeros);
    return status;
}

grail_status region_measure(region *r, const region_positions in[], region_positions *out)
{
    grail_status status = GRAIL_OK;
    if (r->parts.is_sequence) {
        *out = in[r->parts.input_count];
        return GRAIL_OK;
    }
    if (r->parts.output.rank < REGION_TOKENS || is_declared(r, in, out)) {
        *out = r->parts.output.rank < REGION_TOKENS ? (region_positions){1, 1} : *out;
        return GRAIL_OK;
    }
    pthread_mutex_lock(&r->mutex);
    if (!is_measured(r, in)) {
        r->is_measured = false;
        status = in_region(r, try_out(r, in));
    }
    *out = r->out;
    pthread_mutex_unlock(&r->mutex);
    return status;
}

/* Computes a network of `samples` images of zeros, and notes what becomes of the shapes. */
static grail_status probe(ort_session *session, const region_parts *network, int64_t samples,
                          const region_positions images[], int64_t count, ort_tensor shapes[])
{
    grail_status status = GRAIL_OK;
    float *zeros = NULL;
    size_t largest = 1;
    ort_tensor inputs[REGION_MOST_GIVEN];
    for (int i = 0; i < network->input_count; i++) {
        size_t size = 0;
        TRY(elements_of(&network->inputs[i], images[i], (size_t)samples, &size));
        largest = size > largest ? size : largest;
    }
    TRY(memory_new(&zeros, 2 * largest, sizeof zeros[0])); /* integers may be twice as wide */
    for (int i = 0; i < network->input_count; i++) {
        inputs[i] = tensor_of(network->file, &network->inputs[i], samples, images[i]);
        inputs[i].values = zeros;
    }
    TRY(ort_session_run(session, network->input_count, inputs, (int)count, shapes));
out:
    ort_tensors_fini((int)count, shapes);
    memory_free(zeros);
    return status;
}

grail_status region_probe(const region_parts *network, int64_t samples, bool is_open,
                          const region_positions images[], int64_t count, const int64_t values[],
                          ort_tensor shapes[], ort_tensor more[])
{
    grail_status status = GRAIL_OK;
    ort_session *session = NULL;
    for (int64_t i = 0; i < count; i++) {
        shapes[i] = (ort_tensor){.name = network->file->values[values[i]].name};
        more[i] = shapes[i];
    }
    TRY(open_session(network, count, values, &session));
    TRY(probe(session, network, samples, images, count, shapes));
    if (is_open) {
        TRY(probe(session, network, samples + 1, images, count, more));
    } else {
        memcpy(more, shapes, (size_t)count * sizeof more[0]);
    }
out:
    ort_session_close(session);
    return status;
}

static grail_status copy_values(const ort_tensor *made, tensor_view *out)
{
    void *data = NULL;
    size_t bytes = 0;
    *out = (tensor_view){.name = made->name, .dtype = GRAIL_DTYPE_F32, .rank = made->rank};
    if (made->values == NULL || made->rank < 1) {
        return GRAIL_OK;
    }
    memcpy(out->shape, made->shape, (size_t)made->rank * sizeof out->shape[0]);
    CHECK(tensor_measure(out, GRAIL_ERROR_SHAPE));
    bytes = out->bytes;
    CHECK(bytes == 0 ? GRAIL_OK : memory_new_unset(&data, bytes, 1));
    if (bytes > 0) {
        memcpy(data, made->values, bytes);
    }
    out->data = data;
    return GRAIL_OK;
}

grail_status region_values(const region_parts *parts, const region_positions in[],
                           const void *const inputs[], int64_t count, const int64_t values[],
                           tensor_view out[])
{
    grail_status status = GRAIL_OK;
    ort_session *session = NULL;
    ort_tensor *made = NULL;
    ort_tensor given[REGION_MOST_INPUTS];
    for (int i = 0; i < parts->input_count; i++) {
        given[i] = tensor_of(parts->file, &parts->inputs[i], 1, in[i]);
        given[i].values = inputs[i];
    }
    TRY(memory_new(&made, (size_t)count, sizeof made[0]));
    for (int64_t i = 0; i < count; i++) {
        made[i].name = parts->file->values[values[i]].name;
    }
    TRY(open_session(parts, count, values, &session));
    TRY(ort_session_run(session, parts->input_count, given, (int)count, made));
    for (int64_t i = 0; i < count; i++) {
        TRY(copy_values(&made[i], &out[i]));
    }
out:
    if (made != NULL) {
        ort_tensors_fini((int)count, made);
    }
    memory_free(made);
    ort_session_close(session);
    return status;
}

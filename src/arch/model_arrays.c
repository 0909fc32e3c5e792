#include "arch/model_arrays.h"

#include "base/buffer.h"
#include "base/file.h"
#include "format/images/image_arrays.h"
#include "format/text/npy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct array_input {
    char *path; /* owned; NULL: not given */
    file_map map;
    npy_ids ids;
} array_input;

typedef struct array_inputs {
    const grail_model *model;
    array_input *items; /* [inputs of the graph] */
    int64_t samples, positions;
} array_inputs;

static grail_status refuse(const char *format, ...) GRAIL_PRINTF(1, 2);

static grail_status refuse(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_about(error_set(GRAIL_ERROR_ARGUMENT, "%s", text), "path");
}

bool model_names_arrays(const grail_model *model, const char *place)
{
    return model->graph->input_count > 0 && strchr(place, '=') != NULL && !file_exists(place) &&
           !file_is_directory(place);
}

int64_t model_word_count(const grail_model *model)
{
    const graph *g = model->graph;
    int64_t count = g->vocabulary;
    for (int i = 0; i < g->input_count; i++) {
        count = g->inputs[i].divisor == 1 ? g->inputs[i].rows : count;
    }
    return count;
}

/* What an array of the input holds. */
static const char *kind_of(const graph_input *input, char *text, size_t size)
{
    const long long height = (long long)input->positions.height;
    const long long width = (long long)input->positions.width;
    const long long channels = (long long)input->channels;
    if (input->channels == 0) {
        return input->rows == 0 ? "integers [samples, positions], a mask: 1 where positions count "
                                  "and 0 where they are padding"
                                : "integers [samples, positions], numbers of rows of its table";
    }
    const int length = snprintf(text, size, "%s [samples",
                                input->are_truths     ? "integers 0 and 1"
                                : input->are_integers ? "integers"
                                                      : "floating-point values");
    char *rest = text + length;
    const size_t left = size - (size_t)length;
    if (input->rank == 1) {
        snprintf(rest, left, "]");
    } else if (input->rank == 2) {
        snprintf(rest, left, ", %lld]", channels);
    } else if (input->rank == 3) {
        snprintf(rest, left, ", %lld, %lld]", input->channels_last ? height : channels,
                 input->channels_last ? channels : height);
    } else {
        snprintf(rest, left, ", %lld, %lld, %lld]", channels, height, width);
    }
    return text;
}

/* -- what is given ----------------------------------------------------------------------------- */

static grail_status take_name(array_inputs *a, const char *place, const char *at, size_t size)
{
    const graph *g = a->model->graph;
    const char *sign = memchr(at, '=', size);
    const size_t name = sign == NULL ? size : (size_t)(sign - at);
    for (int i = 0; i < g->input_count && sign != NULL; i++) {
        if (strlen(g->inputs[i].name) == name && memcmp(g->inputs[i].name, at, name) == 0) {
            if (a->items[i].path != NULL) {
                return refuse("%s: names the input '%s' twice", place, g->inputs[i].name);
            }
            return memory_format(&a->items[i].path, "%.*s", (int)(size - name - 1), sign + 1);
        }
    }
    return refuse("%s: '%.*s' is no input of the network with a file, expected NAME=FILE; its "
                  "first input is '%s'",
                  place, (int)size, at, g->inputs[0].name);
}

static grail_status take_names(array_inputs *a, const char *place)
{
    char text[160];
    const graph *g = a->model->graph;
    for (const char *at = place; at != NULL;) {
        const size_t size = strcspn(at, ",");
        CHECK(take_name(a, place, at, size));
        at = at[size] == ',' ? at + size + 1 : NULL;
    }
    for (int i = 0; i < g->input_count; i++) {
        if (a->items[i].path == NULL) {
            return refuse("%s: the input '%s' is not given: %s; add %s=FILE", place,
                          g->inputs[i].name, kind_of(&g->inputs[i], text, sizeof text),
                          g->inputs[i].name);
        }
    }
    return GRAIL_OK;
}

static grail_status open_arrays(array_inputs *a)
{
    const graph *g = a->model->graph;
    for (int i = 0; i < g->input_count; i++) {
        array_input *one = &a->items[i];
        CHECK(file_map_open(&one->map, one->path));
        CHECK(error_in(npy_read_header(one->map.data, one->map.size, &one->ids), "%s", one->path));
        const int64_t positions = one->ids.row > 0 ? one->ids.row : one->ids.count;
        const int64_t samples = one->ids.count / positions;
        if (i > 0 && (samples != a->samples || positions != a->positions)) {
            return refuse("%s: [%lld, %lld] for the input '%s', but %s has [%lld, %lld]; expected "
                          "the same samples and positions of all inputs",
                          one->path, (long long)samples, (long long)positions, g->inputs[i].name,
                          a->items[0].path, (long long)a->samples, (long long)a->positions);
        }
        a->samples = samples;
        a->positions = positions;
    }
    return GRAIL_OK;
}

/* -- samples ----------------------------------------------------------------------------------- */

/* *length <- the positions of a sample that a mask leaves, from the first one on. */
static grail_status unmasked(const array_inputs *a, int i, int64_t sample, const int32_t *mask,
                             int64_t *length)
{
    int64_t left = 0;
    for (int64_t t = 0; t < a->positions; t++) {
        if (mask[t] != 0 && mask[t] != 1) {
            return refuse("%s: sample %lld has %ld at position %lld of the mask '%s', expected 0 "
                          "or 1",
                          a->items[i].path, (long long)sample, (long)mask[t], (long long)t,
                          a->model->graph->inputs[i].name);
        }
        if (mask[t] == 1 && left < t) {
            return refuse("%s: sample %lld is masked at position %lld of '%s' and not at %lld; "
                          "put the padding behind all else",
                          a->items[i].path, (long long)sample, (long long)left,
                          a->model->graph->inputs[i].name, (long long)t);
        }
        left += mask[t];
    }
    if (left == 0) {
        return refuse("%s: sample %lld is masked as a whole", a->items[i].path, (long long)sample);
    }
    *length = left < *length ? left : *length;
    return GRAIL_OK;
}

/* Adds what an input says of the first positions of a sample to its ids. */
static grail_status add_input(const array_inputs *a, int i, int64_t sample, const int32_t *row,
                              int64_t length, int32_t *ids)
{
    const graph_input *input = &a->model->graph->inputs[i];
    for (int64_t t = 0; t < length; t++) {
        if (row[t] < 0 || row[t] >= input->rows) {
            return refuse("%s: sample %lld has %ld at position %lld of '%s', expected 0 to %lld",
                          a->items[i].path, (long long)sample, (long)row[t], (long long)t,
                          input->name, (long long)input->rows - 1);
        }
        ids[t] += (int32_t)(row[t] * input->divisor);
    }
    return GRAIL_OK;
}

/* out[positions] <- the ids of a sample, and how many they are. */
static grail_status read_sample(const array_inputs *a, int64_t sample, int32_t *row, int32_t *out,
                                int64_t *length)
{
    const graph *g = a->model->graph;
    *length = a->positions;
    memset(out, 0, (size_t)a->positions * sizeof out[0]);
    for (int pass = 0; pass < 2; pass++) { /* masks before all else */
        for (int i = 0; i < g->input_count; i++) {
            const array_input *one = &a->items[i];
            if ((g->inputs[i].rows > 0) != (pass == 1)) {
                continue;
            }
            CHECK(error_in(npy_read_ids(&one->ids, sample * a->positions, a->positions, row), "%s",
                           one->path));
            CHECK(pass == 0 ? unmasked(a, i, sample, row, length)
                            : add_input(a, i, sample, row, *length, out));
        }
    }
    return GRAIL_OK;
}

static void hash_arrays(const array_inputs *a, char hash[HASH_TEXT_SIZE])
{
    hash_state state;
    hash_begin(&state);
    for (int i = 0; i < a->model->graph->input_count; i++) {
        hash_add(&state, a->items[i].map.data, a->items[i].map.size);
    }
    hash_end(&state, hash);
}

static grail_status read_samples(const array_inputs *a, int64_t context, token_windows *w)
{
    grail_status status = GRAIL_OK;
    int32_t *row = NULL;
    bool differ = false;
    int64_t used = 0;
    w->count = a->samples;
    TRY(memory_new_unset(&row, (size_t)a->positions, sizeof row[0]));
    TRY(memory_new_unset(&w->ids, (size_t)(a->samples * a->positions), sizeof w->ids[0]));
    TRY(memory_new(&w->starts, (size_t)a->samples + 1, sizeof w->starts[0]));
    for (int64_t i = 0; i < a->samples; i++) {
        int64_t length = 0;
        TRY(read_sample(a, i, row, w->ids + used, &length));
        length = context > 0 && context < length ? context : length;
        differ = differ || (i > 0 && length != w->length);
        w->length = length > w->length ? length : w->length;
        used += length;
        w->starts[i + 1] = used;
    }
    if (differ) { /* documents, of which the longest may be shorter than one may be */
        w->length = context > 0 ? context : a->model->context;
    } else {
        memory_free(w->starts);
        w->starts = NULL;
    }
    w->stream_tokens = used;
    hash_arrays(a, w->text_hash);
out:
    memory_free(row);
    return status;
}

grail_status model_read_arrays(const grail_model *model, const char *place, int64_t context,
                               token_windows *out)
{
    grail_status status = GRAIL_OK;
    const int count = model->graph->input_count;
    array_inputs a = {.model = model};
    token_windows w = {0};
    TRY(memory_new(&a.items, (size_t)count, sizeof a.items[0]));
    TRY(take_names(&a, place));
    TRY(open_arrays(&a));
    TRY(read_samples(&a, context, &w));
    *out = w;
    w = (token_windows){0};
out:
    token_windows_fini(&w);
    for (int i = 0; a.items != NULL && i < count; i++) {
        file_map_close(&a.items[i].map);
        memory_free(a.items[i].path);
    }
    memory_free(a.items);
    return status;
}

/* -- inputs side by side ----------------------------------------------------------------------- */

static array_layout layout_of(const graph_input *input)
{
    array_layout l = {.rank = input->rank,
                      .channels_last = input->channels_last,
                      .of_integers = input->are_integers};
    graph_integer_range(input, &l.least, &l.most);
    snprintf(l.name, sizeof l.name, "%s", input->name);
    return l;
}

static grail_status check_shape(const array_input *one, const graph_input *input)
{
    char text[160];
    image_arrays found = {0};
    const array_layout layout = layout_of(input);
    grail_status status = image_arrays_open_part(one->path, &layout, &found);
    if (status == GRAIL_OK &&
        (found.channels != input->channels || found.height != input->positions.height ||
         found.width != input->positions.width)) {
        status = error_about(
            error_set(GRAIL_ERROR_SHAPE, "%s: its samples are [%lld, %lld, %lld], but '%s' is %s",
                      one->path, (long long)found.channels, (long long)found.height,
                      (long long)found.width, input->name, kind_of(input, text, sizeof text)),
            "path");
    }
    image_arrays_close(&found);
    return status;
}

grail_status model_order_arrays(const grail_model *model, const char *place, char **out,
                                array_layout **layouts)
{
    grail_status status = GRAIL_OK;
    const graph *g = model->graph;
    array_inputs a = {.model = model};
    buffer text = {0};
    buffer_init(&text, SIZE_MAX / 4);
    TRY(memory_new(&a.items, (size_t)g->input_count, sizeof a.items[0]));
    TRY(memory_new(layouts, (size_t)g->input_count, sizeof **layouts));
    TRY(take_names(&a, place));
    for (int i = 0; i < g->input_count; i++) {
        (*layouts)[i] = layout_of(&g->inputs[i]);
        TRY(check_shape(&a.items[i], &g->inputs[i]));
        TRY(buffer_format(&text, "%s%s=%s", i > 0 ? "," : "", g->inputs[i].name, a.items[i].path));
    }
    TRY(memory_copy_string(out, (const char *)text.bytes));
out:
    buffer_fini(&text);
    for (int i = 0; a.items != NULL && i < g->input_count; i++) {
        memory_free(a.items[i].path);
    }
    memory_free(a.items);
    return status;
}

/* -- padding ----------------------------------------------------------------------------------- */

grail_status model_check_padding(const grail_model *model, const token_windows *w)
{
    const graph *g = model->graph;
    for (int k = 0; k < g->input_count; k++) {
        const graph_input *input = &g->inputs[k];
        for (int64_t i = 0; i < w->count && input->padding != GRAPH_NONE && input->divisor > 0;
             i++) {
            const int32_t *ids = w->ids + window_start(w, i);
            for (int64_t t = 0; t < window_size(w, i); t++) {
                if (ids[t] / input->divisor % input->rows == input->padding) {
                    return refuse("sample %lld has %lld at position %lld of '%s', by which the "
                                  "network's file knows padding; leave padding out, or mask it",
                                  (long long)i, (long long)input->padding, (long long)t,
                                  input->name);
                }
            }
        }
    }
    return GRAIL_OK;
}

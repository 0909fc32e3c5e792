#include "format/onnx/onnx_write.h"

#include "format/onnx/onnx_fields.h"
#include "format/onnx/onnx_layout.h"

#include <string.h>

enum { LARGEST_GRAPH = 1 << 30 }; /* bytes, without the values of tensors */

typedef struct onnx_tensor {
    int64_t bytes; /* of values */
    onnx_place place;
    int rank;
    int64_t shape[ONNX_MAX_RANK];
    char *name; /* owned */
} onnx_tensor;

struct onnx_writer {
    buffer graph; /* GraphProto without the tensors */
    onnx_tensor *tensors;
    int tensor_count;
    onnx_layout layout;
    int64_t bytes;
};

static grail_status check_rank(int rank)
{
    return rank >= 0 && rank <= ONNX_MAX_RANK
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_INTERNAL, "a tensor of rank %d", rank);
}

grail_status onnx_writer_create(onnx_writer **out)
{
    onnx_writer *w = NULL;
    CHECK(memory_new(&w, 1, sizeof *w));
    buffer_init(&w->graph, LARGEST_GRAPH);
    onnx_layout_init(&w->layout);
    *out = w;
    return GRAIL_OK;
}

void onnx_writer_free(onnx_writer *w)
{
    if (w == NULL) {
        return;
    }
    for (int i = 0; i < w->tensor_count; i++) {
        memory_free(w->tensors[i].name);
    }
    onnx_layout_fini(&w->layout);
    memory_free(w->tensors);
    buffer_fini(&w->graph);
    memory_free(w);
}

grail_status onnx_add_input(onnx_writer *w, const char *name, int rank, const int64_t shape[])
{
    return onnx_put_value(&w->graph, GRAPH_INPUT, name, ONNX_FLOAT, rank, shape);
}

grail_status onnx_add_output(onnx_writer *w, const char *name, int rank, const int64_t shape[])
{
    return onnx_put_value(&w->graph, GRAPH_OUTPUT, name, ONNX_FLOAT, rank, shape);
}

grail_status onnx_add_node(onnx_writer *w, const onnx_node *n)
{
    return onnx_put_node(&w->graph, n);
}

/* TensorProto without its values */
static grail_status put_tensor_header(buffer *out, const char *name, int element, int rank,
                                      const int64_t shape[])
{
    CHECK(check_rank(rank));
    CHECK(onnx_put_sizes(out, rank, shape));
    CHECK(protobuf_put_integer(out, TENSOR_TYPE, element));
    return protobuf_put_string(out, TENSOR_NAME, name);
}

static grail_status add_constant(onnx_writer *w, const char *name, int element, int count,
                                 const void *values, size_t size)
{
    const int64_t shape = count;
    const size_t begin = w->graph.size;
    CHECK(put_tensor_header(&w->graph, name, element, count < 0 ? 0 : 1, &shape));
    CHECK(
        protobuf_put_bytes(&w->graph, TENSOR_RAW, values, size * (size_t)(count < 0 ? 1 : count)));
    return protobuf_end_message(&w->graph, GRAPH_INITIALIZER, begin, 0);
}

grail_status onnx_add_integers(onnx_writer *w, const char *name, int count, const int64_t values[])
{
    return add_constant(w, name, ONNX_INT64, count, values, sizeof values[0]);
}

grail_status onnx_add_real(onnx_writer *w, const char *name, double value)
{
    const float rounded = (float)value;
    return add_constant(w, name, ONNX_FLOAT, -1, &rounded, sizeof rounded);
}

grail_status onnx_add_tensor(onnx_writer *w, const char *name, int rank, const int64_t shape[],
                             int *out)
{
    size_t bytes = sizeof(float);
    CHECK(check_rank(rank));
    CHECK(memory_reserve(&w->tensors, (size_t)w->tensor_count + 1, sizeof w->tensors[0]));
    onnx_tensor *t = &w->tensors[w->tensor_count];
    *t = (onnx_tensor){.place = {.file = -1}, .rank = rank};
    for (int i = 0; i < rank; i++) {
        t->shape[i] = shape[i];
        if (!size_multiply(bytes, (size_t)shape[i], &bytes) || bytes > INT64_MAX / 2) {
            return error_set(GRAIL_ERROR_ARGUMENT, "tensor '%s' is too large", name);
        }
    }
    t->bytes = (int64_t)bytes;
    CHECK(memory_copy_string(&t->name, name));
    *out = w->tensor_count++;
    return GRAIL_OK;
}

static grail_status lay_tensors(onnx_writer *w)
{
    onnx_layout *l = &w->layout;
    for (int i = 0; i < w->tensor_count; i++) {
        onnx_tensor *t = &w->tensors[i];
        onnx_open_field tensor;
        CHECK(onnx_layout_begin(l, &tensor));
        CHECK(put_tensor_header(&l->text, t->name, ONNX_FLOAT, t->rank, t->shape));
        CHECK(onnx_layout_values(l, (size_t)t->bytes, &t->place));
        CHECK(onnx_layout_end(l, GRAPH_INITIALIZER, tensor));
    }
    return GRAIL_OK;
}

static grail_status lay_model(onnx_writer *w)
{
    onnx_layout *l = &w->layout;
    onnx_open_field graph;
    onnx_layout_restart(l);
    CHECK(protobuf_put_integer(&l->text, MODEL_IR_VERSION, ONNX_IR_VERSION));
    CHECK(protobuf_put_string(&l->text, MODEL_PRODUCER, "grail"));
    const size_t begin = l->text.size;
    CHECK(protobuf_put_integer(&l->text, OPSET_VERSION, ONNX_OPSET));
    CHECK(protobuf_end_message(&l->text, MODEL_OPSET, begin, 0));
    CHECK(onnx_layout_text(l));
    CHECK(onnx_layout_begin(l, &graph));
    CHECK(onnx_layout_keep(l, (byte_range){w->graph.bytes, w->graph.size}));
    CHECK(lay_tensors(w));
    return onnx_layout_end(l, MODEL_GRAPH, graph);
}

grail_status onnx_begin(onnx_writer *w, const char *path, int64_t largest)
{
    CHECK(protobuf_put_string(&w->graph, GRAPH_NAME, "grail"));
    CHECK(lay_model(w));
    if (w->layout.size > (uint64_t)largest) {
        int64_t file = -1;
        CHECK(onnx_layout_add_file(&w->layout, path, NULL, &file));
        for (int i = 0; i < w->tensor_count; i++) {
            onnx_tensor *t = &w->tensors[i];
            onnx_layout_move(&w->layout, file, (size_t)t->bytes, &t->place);
            w->bytes += t->bytes;
        }
        CHECK(lay_model(w));
    }
    w->bytes += (int64_t)w->layout.size;
    return onnx_layout_write(&w->layout, path);
}

grail_status onnx_put(onnx_writer *w, int tensor, int64_t first, int64_t count, const float *values)
{
    const onnx_tensor *t = &w->tensors[tensor];
    const int64_t size = (int64_t)sizeof values[0];
    if (first < 0 || count < 0 || first > t->bytes / size - count) {
        return error_set(GRAIL_ERROR_INTERNAL, "values beyond the end of '%s'", t->name);
    }
    return onnx_layout_put(&w->layout, &t->place, (uint64_t)(first * size), values,
                           (size_t)(count * size));
}

grail_status onnx_finish(onnx_writer *w)
{
    return onnx_layout_commit(&w->layout);
}

int64_t onnx_bytes(const onnx_writer *w)
{
    return w->bytes;
}

bool onnx_is_split(const onnx_writer *w)
{
    return w->layout.file_count > 0;
}

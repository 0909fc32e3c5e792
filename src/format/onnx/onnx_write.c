#include "format/onnx/onnx_write.h"

#include "base/file.h"
#include "base/output_file.h"
#include "format/onnx/onnx_fields.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LARGEST_TEXT = 1 << 30, /* of the model without the values of its tensors */
    PAGE = 4096             /* alignment of tensors in a second file, so that they can be mapped */
};

typedef struct onnx_tensor {
    buffer header; /* tag and length of the initializer field, then TensorProto up to its values */
    int64_t bytes; /* of values */
    uint64_t offset; /* of the values in their file */
    int rank;
    int64_t shape[ONNX_MAX_RANK];
    char *name; /* owned */
} onnx_tensor;

struct onnx_writer {
    buffer graph; /* GraphProto without the tensors */
    onnx_tensor *tensors;
    int tensor_count;
    output_file model, data; /* data.path is NULL unless there is a second file */
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
    buffer_init(&w->graph, LARGEST_TEXT);
    w->model.descriptor = -1;
    w->data.descriptor = -1;
    *out = w;
    return GRAIL_OK;
}

void onnx_writer_free(onnx_writer *w)
{
    if (w == NULL) {
        return;
    }
    for (int i = 0; i < w->tensor_count; i++) {
        buffer_fini(&w->tensors[i].header);
        memory_free(w->tensors[i].name);
    }
    output_file_fini(&w->model);
    output_file_fini(&w->data);
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
    *t = (onnx_tensor){.rank = rank};
    for (int i = 0; i < rank; i++) {
        t->shape[i] = shape[i];
        if (!size_multiply(bytes, (size_t)shape[i], &bytes) || bytes > INT64_MAX / 2) {
            return error_set(GRAIL_ERROR_ARGUMENT, "tensor '%s' is too large", name);
        }
    }
    t->bytes = (int64_t)bytes;
    buffer_init(&t->header, LARGEST_TEXT);
    CHECK(memory_copy_string(&t->name, name));
    *out = w->tensor_count++;
    return GRAIL_OK;
}

/* Makes the headers of all tensors, their fields up to their values; with `file` these lie in that
 * file. *out is the size of GraphProto: w->graph and the tensors. */
static grail_status make_headers(onnx_writer *w, const char *file, size_t *out)
{
    size_t size = w->graph.size;
    for (int i = 0; i < w->tensor_count; i++) {
        onnx_tensor *t = &w->tensors[i];
        const size_t bytes = file == NULL ? (size_t)t->bytes : 0;
        t->header.size = 0;
        CHECK(put_tensor_header(&t->header, t->name, ONNX_FLOAT, t->rank, t->shape));
        CHECK(file != NULL ? onnx_put_location(&t->header, file, t->offset, (uint64_t)t->bytes)
                           : protobuf_put_header(&t->header, TENSOR_RAW, bytes));
        CHECK(protobuf_end_message(&t->header, GRAPH_INITIALIZER, 0, bytes));
        if (!size_add(size, t->header.size, &size) || !size_add(size, bytes, &size)) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "the model takes more bytes than a file can hold");
        }
    }
    *out = size;
    return GRAIL_OK;
}

/* Writes ModelProto up to the contents of its graph. */
static grail_status make_head(size_t graph_size, buffer *out)
{
    CHECK(protobuf_put_integer(out, MODEL_IR_VERSION, ONNX_IR_VERSION));
    CHECK(protobuf_put_string(out, MODEL_PRODUCER, "grail"));
    const size_t begin = out->size;
    CHECK(protobuf_put_integer(out, OPSET_VERSION, ONNX_OPSET));
    CHECK(protobuf_end_message(out, MODEL_OPSET, begin, 0));
    return protobuf_put_header(out, MODEL_GRAPH, graph_size);
}

/* Writes head, graph and tensor headers to their places; onnx_put writes the values later. */
static grail_status write_text(onnx_writer *w, const buffer *head, bool split)
{
    const output_file *f = &w->model;
    uint64_t offset = 0;
    CHECK(file_write_at(f->descriptor, f->path, head->bytes, head->size, offset));
    offset += head->size;
    CHECK(file_write_at(f->descriptor, f->path, w->graph.bytes, w->graph.size, offset));
    offset += w->graph.size;
    for (int i = 0; i < w->tensor_count; i++) {
        onnx_tensor *t = &w->tensors[i];
        CHECK(file_write_at(f->descriptor, f->path, t->header.bytes, t->header.size, offset));
        offset += t->header.size;
        if (!split) {
            t->offset = offset;
            offset += (uint64_t)t->bytes;
        }
    }
    return GRAIL_OK;
}

grail_status onnx_begin(onnx_writer *w, const char *path, int64_t largest)
{
    grail_status status = GRAIL_OK;
    char *file = NULL;
    char *data_path = NULL;
    size_t size = 0;
    buffer head;
    buffer_init(&head, LARGEST_TEXT);
    TRY(protobuf_put_string(&w->graph, GRAPH_NAME, "grail"));
    TRY(make_headers(w, NULL, &size));
    TRY(make_head(size, &head));
    const bool split = size > (uint64_t)largest - head.size || head.size > (uint64_t)largest;
    if (split) {
        const char *slash = strrchr(path, '/');
        TRY(memory_format(&file, "%s.data", slash == NULL ? path : slash + 1));
        for (uint64_t i = 0, offset = 0; i < (uint64_t)w->tensor_count; i++) {
            onnx_tensor *t = &w->tensors[i];
            t->offset = offset;
            offset += ((uint64_t)t->bytes + PAGE - 1) / PAGE * PAGE;
            w->bytes += t->bytes;
        }
        TRY(make_headers(w, file, &size));
        head.size = 0;
        TRY(make_head(size, &head));
        TRY(memory_format(&data_path, "%s.data", path));
        TRY(output_file_open(data_path, false, &w->data));
    }
    w->bytes += (int64_t)(size + head.size);
    TRY(output_file_open(path, false, &w->model));
    TRY(write_text(w, &head, split));
out:
    memory_free(file);
    memory_free(data_path);
    buffer_fini(&head);
    return status;
}

grail_status onnx_put(onnx_writer *w, int tensor, int64_t first, int64_t count, const float *values)
{
    const onnx_tensor *t = &w->tensors[tensor];
    const output_file *f = w->data.path != NULL ? &w->data : &w->model;
    const int64_t size = (int64_t)sizeof values[0];
    if (first < 0 || count < 0 || first > t->bytes / size - count) {
        return error_set(GRAIL_ERROR_INTERNAL, "values beyond the end of '%s'", t->name);
    }
    return file_write_at(f->descriptor, f->path, values, (size_t)(count * size),
                         t->offset + (uint64_t)(first * size));
}

/* Finishes the file of values first, so that a finished model has all its values. */
grail_status onnx_finish(onnx_writer *w)
{
    const bool split = onnx_is_split(w);
    grail_status status = split ? output_file_commit(&w->data) : GRAIL_OK;
    if (status == GRAIL_OK) {
        status = output_file_commit(&w->model);
        if (status != GRAIL_OK && split) {
            unlink(w->data.path);
        }
    }
    return status;
}

int64_t onnx_bytes(const onnx_writer *w)
{
    return w->bytes;
}

bool onnx_is_split(const onnx_writer *w)
{
    return w->data.path != NULL;
}

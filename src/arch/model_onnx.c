/* Writes a model as an ONNX file: declares it, lays out the file, then writes tensor by tensor. */
#include "arch/onnx_graph.h"
#include "base/name_list.h"

#include "base/options.h"
#include "base/stop.h"

#include <grail/onnx.h>

enum { PIECE = 1 << 18 }; /* elements converted at once */

/* Copies the values of a checkpoint tensor, piece by piece, to the writer's tensor `to`. */
static grail_status copy_tensor(const grail_model *m, const tensor_view *view, int to,
                                onnx_writer *w, float *piece)
{
    const size_t element = dtype_bits(view->dtype) / 8;
    CHECK(checkpoint_need(m->checkpoint, view));
    const int64_t count = (int64_t)(view->bytes / element);
    for (int64_t first = 0; first < count; first += PIECE) {
        const int64_t now = count - first < PIECE ? count - first : PIECE;
        const unsigned char *source = (const unsigned char *)view->data + (size_t)first * element;
        CHECK(stop_check());
        CHECK(convert_to_f32(view->dtype, source, now, piece));
        const int64_t bad = find_non_finite(piece, now);
        if (bad >= 0) {
            CHECK(model_error_non_finite(m, view, first + bad));
        }
        CHECK(onnx_put(w, to, first, now, piece));
    }
    checkpoint_release(m->checkpoint, view);
    return GRAIL_OK;
}

/* The tensors, and the table of fixed positions, if the graph has one. */
static grail_status copy_all(const grail_model *m, const onnx_tensors *tensors, onnx_writer *w,
                             bool *converted)
{
    grail_status status = GRAIL_OK;
    float *piece = NULL;
    TRY(memory_new_unset(&piece, PIECE, sizeof piece[0]));
    for (int64_t i = 0; i < checkpoint_count(m->checkpoint); i++) {
        const tensor_view *view = checkpoint_at(m->checkpoint, i);
        if (tensors->of_checkpoint[i] != GRAPH_NONE) {
            *converted = *converted || view->dtype != GRAIL_DTYPE_F32;
            TRY(copy_tensor(m, view, tensors->of_checkpoint[i], w, piece));
        }
    }
    for (int64_t first = 0; first < tensors->table_elements; first += PIECE) {
        const int64_t left = tensors->table_elements - first;
        const int64_t now = left < PIECE ? left : PIECE;
        for (int64_t i = 0; i < now; i++) {
            piece[i] = (float)tensors->values[first + i];
        }
        TRY(onnx_put(w, tensors->table, first, now, piece));
    }
out:
    memory_free(piece);
    return status;
}

/* clang-format off */
#define FIELD(member) OPTION_FIELD(grail_onnx_options, member), .zero_is_usual = 1,                \
                      .subject = GRAIL_SUBJECT_OUTPUT
static const grail_option fields[] = {
    {FIELD(side), .type = GRAIL_OPTION_INTEGER, .what = "the side of the images", .name = "side",
     .argument = "N",
     .help = "side of the input images in pixels (the network's, or its preset's)"},
    {FIELD(largest), .type = GRAIL_OPTION_SIZE, .what = "the size of the largest file",
     .name = "largest", .argument = "BYTES",
     .help = "largest size of FILE; if it would be larger, the weights go into FILE.data (2 GB)"},
    OPTION_ROOM(grail_onnx_options, room, grail_onnx_options),
    {0},
};
/* clang-format on */

const grail_option *grail_onnx_option_at(int i)
{
    return option_at(fields, i);
}

grail_status grail_onnx_write(const grail_model *model, const char *path,
                              const grail_onnx_options *options, grail_onnx_facts *facts)
{
    grail_status status = GRAIL_OK;
    const grail_onnx_options defaults = {0};
    const grail_onnx_options *chosen = options == NULL ? &defaults : options;
    const int64_t largest = chosen->largest > 0 ? chosen->largest : ONNX_LARGEST_FILE;
    grail_onnx_facts found = {0};
    onnx_tensors tensors = {0};
    onnx_writer *w = NULL;
    bool converted = false;
    TRY(options_check(fields, chosen));
    TRY(name_check_ending(path, "an ONNX file", ".onnx"));
    if (model->graph->input_kind != INPUT_IMAGES) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "%s: cannot write a decoder as ONNX, only a network that reads images; convert the "
             "checkpoint with a tool for decoders",
             checkpoint_path(model->checkpoint));
    }
    found.side = chosen->side > 0 ? chosen->side : model_image_side(model);
    TRY(memory_new(&tensors.of_checkpoint, (size_t)checkpoint_count(model->checkpoint),
                   sizeof tensors.of_checkpoint[0]));
    TRY(onnx_writer_create(&w));
    TRY(onnx_graph_declare(model, (extent){.height = found.side, .width = found.side}, w,
                           &tensors));
    TRY(onnx_begin(w, path, largest));
    TRY(copy_all(model, &tensors, w, &converted));
    TRY(onnx_finish(w));
    found.outputs = tensors.outputs;
    found.bytes = onnx_bytes(w);
    found.split = onnx_is_split(w);
    found.converted = converted;
    if (facts != NULL) {
        *facts = found;
    }
out:
    onnx_writer_free(w);
    memory_free(tensors.of_checkpoint);
    return status;
}

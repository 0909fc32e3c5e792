#include "lab_network.h"

#include "format/weights/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

lab_resnet lab_resnet18(void)
{
    return (lab_resnet){.style = LAB_TORCHVISION,
                        .stem_kernel = 7,
                        .stem = 64,
                        .stages = 4,
                        .blocks = {2, 2, 2, 2},
                        .inner = {64, 128, 256, 512},
                        .out = {64, 128, 256, 512},
                        .classes = 1000};
}

lab_resnet lab_resnet50(void)
{
    lab_resnet r = lab_resnet18();
    const int blocks[] = {3, 4, 6, 3};
    r.bottleneck = true;
    for (int s = 0; s < r.stages; s++) {
        r.blocks[s] = blocks[s];
        r.out[s] = 4 * r.inner[s];
    }
    return r;
}

lab_resnet lab_narrowed_resnet50(void)
{
    lab_resnet r = lab_resnet50();
    const int blocks[] = {1, 2, 1, 2};
    r.stem = 9;
    r.classes = 7;
    for (int s = 0; s < r.stages; s++) {
        r.blocks[s] = blocks[s];
        r.inner[s] = 3 + 5 * s;
        r.out[s] = 13 + 4 * s;
    }
    return r;
}

lab_resnet lab_akamaster(int blocks)
{
    return (lab_resnet){.style = LAB_CIFAR,
                        .stem_kernel = 3,
                        .stem = 16,
                        .pads = true,
                        .stages = 3,
                        .blocks = {blocks, blocks, blocks},
                        .inner = {16, 32, 64},
                        .out = {16, 32, 64},
                        .classes = 10};
}

lab_resnet lab_cifar_resnet18(void)
{
    lab_resnet r = lab_resnet18();
    r.stem_kernel = 3;
    r.classes = 10;
    return r;
}

lab_resnet lab_pre_activation(int64_t width)
{
    lab_resnet r = lab_cifar_resnet18();
    r.style = LAB_PRE_ACTIVATION;
    r.stem = width;
    for (int s = 0; s < r.stages; s++) {
        r.inner[s] = r.out[s] = width << s;
    }
    return r;
}

lab_resnet lab_hugging_face(bool bottleneck)
{
    lab_resnet r = {.style = LAB_HUGGING_FACE,
                    .stem_kernel = 7,
                    .stem = 8,
                    .bottleneck = bottleneck,
                    .stages = 3,
                    .blocks = {1, 2, 1},
                    .inner = {12, 20, 28},
                    .out = {12, 20, 28},
                    .classes = 5};
    for (int s = 0; bottleneck && s < r.stages; s++) {
        r.inner[s] /= 4;
    }
    return r;
}

void lab_network_add(lab_network *n, const char *name, int rank, const int64_t shape[])
{
    assert_true(n->count < LAB_NETWORK_TENSORS);
    lab_shape *t = &n->tensors[n->count++];
    *t = (lab_shape){.dtype = GRAIL_DTYPE_F32, .rank = rank};
    snprintf(t->name, sizeof t->name, "%s", name);
    memcpy(t->shape, shape, (size_t)rank * sizeof shape[0]);
}

static void add_conv(lab_network *n, const char *part, int64_t out, int64_t in, int64_t kernel)
{
    char name[LAB_NETWORK_NAME];
    snprintf(name, sizeof name, "%s.weight", part);
    lab_network_add(n, name, 4, (const int64_t[]){out, in, kernel, kernel});
}

static void add_norm(lab_network *n, const char *part, int64_t width)
{
    static const char *const suffixes[] = {"weight", "bias", "running_mean", "running_var"};
    char name[LAB_NETWORK_NAME];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s.%s", part, suffixes[i]);
        lab_network_add(n, name, 1, &width);
    }
    snprintf(name, sizeof name, "%s.num_batches_tracked", part);
    lab_network_add(n, name, 0, &width);
    n->tensors[n->count - 1].dtype = GRAIL_DTYPE_I64;
}

/* The convolution or norm number `i` of a block. */
static void name_part(const lab_resnet *r, int stage, int block, bool norm, int i, char *out)
{
    if (r->style == LAB_HUGGING_FACE) {
        snprintf(out, LAB_NETWORK_NAME, "resnet.encoder.stages.%d.layers.%d.layer.%d.%s", stage,
                 block, i, norm ? "normalization" : "convolution");
    } else {
        snprintf(out, LAB_NETWORK_NAME, "layer%d.%d.%s%d", stage + 1, block, norm ? "bn" : "conv",
                 i + 1);
    }
}

static void name_shortcut(const lab_resnet *r, int stage, int block, bool norm, char *out)
{
    if (r->style == LAB_HUGGING_FACE) {
        snprintf(out, LAB_NETWORK_NAME, "resnet.encoder.stages.%d.layers.%d.shortcut.%s", stage,
                 block, norm ? "normalization" : "convolution");
    } else {
        snprintf(out, LAB_NETWORK_NAME, "layer%d.%d.%s.%d", stage + 1, block,
                 r->style == LAB_TORCHVISION ? "downsample" : "shortcut", norm ? 1 : 0);
    }
}

static void add_block(lab_network *n, const lab_resnet *r, int stage, int block, int64_t in)
{
    char name[LAB_NETWORK_NAME];
    const int convs = r->bottleneck ? 3 : 2;
    const int64_t stream = in;
    const int64_t out = r->out[stage];
    for (int c = 0; c < convs; c++) {
        const int64_t width = c == convs - 1 ? out : r->inner[stage];
        name_part(r, stage, block, false, c, name);
        const int64_t groups = r->groups > 1 && c == 1 ? r->groups : 1;
        add_conv(n, name, width, in / groups, r->bottleneck && c != 1 ? 1 : 3);
        name_part(r, stage, block, true, c, name);
        add_norm(n, name, r->style == LAB_PRE_ACTIVATION ? in : width);
        in = width;
    }
    const bool strides = block == 0 && (stage > 0 || r->strides_first_stage);
    if (!r->pads && (strides || stream != out)) {
        name_shortcut(r, stage, block, false, name);
        add_conv(n, name, out, stream, 1);
        if (r->style != LAB_PRE_ACTIVATION) {
            name_shortcut(r, stage, block, true, name);
            add_norm(n, name, out);
        }
    }
}

static void add_head(lab_network *n, const char *part, int64_t classes, int64_t in)
{
    char name[LAB_NETWORK_NAME];
    snprintf(name, sizeof name, "%s.weight", part);
    lab_network_add(n, name, 2, (const int64_t[]){classes, in});
    snprintf(name, sizeof name, "%s.bias", part);
    lab_network_add(n, name, 1, &classes);
}

void lab_network_init(lab_network *n, const lab_resnet *r)
{
    static const char *const heads[] = {"fc", "linear", "classifier.1", "linear"};
    const bool hf = r->style == LAB_HUGGING_FACE;
    int64_t stream = r->stem;
    n->count = 0;
    add_conv(n, hf ? "resnet.embedder.embedder.convolution" : "conv1", stream, 3, r->stem_kernel);
    if (r->style != LAB_PRE_ACTIVATION) {
        add_norm(n, hf ? "resnet.embedder.embedder.normalization" : "bn1", stream);
    }
    for (int s = 0; s < r->stages; s++) {
        for (int b = 0; b < r->blocks[s]; b++) {
            add_block(n, r, s, b, stream);
            stream = r->out[s];
        }
    }
    if (r->style == LAB_PRE_ACTIVATION) {
        add_norm(n, "bn", stream);
    }
    add_head(n, heads[r->style], r->classes, stream);
}

lab_shape *lab_network_find(lab_network *n, const char *name)
{
    for (int i = 0; i < n->count; i++) {
        if (strcmp(n->tensors[i].name, name) == 0) {
            return &n->tensors[i];
        }
    }
    fail_msg("there is no tensor '%s'", name);
    return NULL;
}

void lab_network_remove(lab_network *n, const char *name)
{
    lab_shape *t = lab_network_find(n, name);
    *t = n->tensors[--n->count];
}

double lab_uniform(const char *name, int64_t i)
{
    uint64_t state = 14695981039346656037U;
    for (const char *c = name; *c != 0; c++) {
        state = (state ^ (unsigned char)*c) * 1099511628211U;
    }
    state += ((uint64_t)i + 1U) * 0x9e3779b97f4a7c15U;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
    state ^= state >> 31;
    return (double)(state >> 40) / 8388608.0 - 1.0;
}

tensor_view lab_pixels(int64_t images, int64_t side, float **values)
{
    tensor_view view = {.dtype = GRAIL_DTYPE_F32, .rank = 4, .shape = {images, side, side, 3}};
    const int64_t count = images * side * side * 3;
    assert_ok(memory_new_unset(values, (size_t)count, sizeof **values));
    for (int64_t i = 0; i < count; i++) {
        (*values)[i] = (float)(2.0 * lab_uniform("pixels", i));
    }
    view.data = *values;
    view.bytes = (size_t)count * sizeof **values;
    return view;
}

static bool ends_with(const char *text, const char *suffix)
{
    const size_t length = strlen(text);
    const size_t end = strlen(suffix);
    return length >= end && strcmp(text + length - end, suffix) == 0;
}

/* offset + scale * uniform: matrices keep the size of what they multiply, norms change it little.
 */
static void value_range(const lab_shape *t, double *offset, double *scale)
{
    int64_t fan_in = 1;
    for (int d = 1; d < t->rank; d++) {
        fan_in *= t->shape[d];
    }
    *offset = 0.0;
    *scale = 0.25;
    if (t->rank == 4) {
        *scale = sqrt(6.0 / (double)fan_in);
    } else if (t->rank == 2) {
        *scale = 4.0 / sqrt((double)fan_in);
    } else if (ends_with(t->name, ".weight")) {
        *offset = 0.5;
    } else if (ends_with(t->name, ".running_var")) {
        *offset = 0.75;
    }
}

void lab_shape_values(const lab_shape *t, int64_t count, float *values)
{
    double offset = 0.0;
    double scale = 0.0;
    value_range(t, &offset, &scale);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)(offset + scale * lab_uniform(t->name, i));
    }
}

static void put_values(tensor_writer *writer, const lab_shape *t)
{
    OWNED(float) *values = NULL;
    int64_t count = 0;
    assert_true(shape_elements(t->rank, t->shape, &count));
    assert_ok(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    lab_shape_values(t, count, values);
    assert_ok(tensor_writer_put(writer, t->name, values, (size_t)count * sizeof values[0]));
}

void lab_network_write(const lab_network *n, const char *directory, bool with_values)
{
    static tensor_view views[LAB_NETWORK_TENSORS];
    OWNED(tensor_writer) *writer = NULL;
    char path[1024];
    for (int i = 0; i < n->count; i++) {
        const lab_shape *t = &n->tensors[i];
        views[i] = (tensor_view){.name = t->name, .dtype = t->dtype, .rank = t->rank};
        memcpy(views[i].shape, t->shape, (size_t)t->rank * sizeof t->shape[0]);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    remove(path);
    assert_ok(safetensors_writer_open(path, n->count, views, LAYOUT_NEW, &writer));
    for (int i = 0; i < n->count && with_values; i++) {
        if (n->tensors[i].dtype == GRAIL_DTYPE_F32) {
            put_values(writer, &n->tensors[i]);
        }
    }
    assert_ok(tensor_writer_seal(writer));
}

void lab_network_put_behind(lab_network *n, int first, const char *prefix)
{
    for (int i = first; i < n->count; i++) {
        char name[LAB_NETWORK_NAME];
        snprintf(name, sizeof name, "%s", n->tensors[i].name);
        snprintf(n->tensors[i].name, LAB_NETWORK_NAME, "%s%.90s", prefix, name);
    }
}

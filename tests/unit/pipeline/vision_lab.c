#include "vision_lab.h"

#include "base/file.h"
#include "base/random.h"
#include "format/images/image_set.h"
#include "format/weights/weights_format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* -- networks --------------------------------------------------------------------------------- */

const char *vision_family_name(vision_family family)
{
    static const char *const names[VISION_FAMILIES] = {"basic",          "bottleneck", "padded",
                                                       "pre-activation", "hf-vit",     "timm-vit"};
    return names[family];
}

bool vision_family_is_tower(vision_family family)
{
    return family == VISION_HUGGING_FACE_VIT || family == VISION_TIMM_VIT;
}

/* Widths that all differ where they may, so that no two axes can be confused. */
static lab_resnet resnet_of(vision_family family)
{
    lab_resnet r = {.style = LAB_TORCHVISION,
                    .stem_kernel = 3,
                    .stem = 8,
                    .stages = 2,
                    .blocks = {2, 1},
                    .inner = {6, 10},
                    .out = {8, 12},
                    .classes = VISION_CLASSES};
    if (family == VISION_BOTTLENECK) {
        r.bottleneck = true;
        r.stem_kernel = 7;
        r.inner[1] = 7;
        r.out[0] = 10;
    } else if (family == VISION_PADDED) {
        r.style = LAB_CIFAR;
        r.pads = true;
    } else if (family == VISION_PRE_ACTIVATION) {
        r.style = LAB_PRE_ACTIVATION;
    }
    return r;
}

/* One tensor of a transformer: rows and columns in these sizes. */
enum { STREAM = 24, INNER = 20, PATCH = 8, PIXELS = 3 * PATCH * PATCH, LAYERS = 2 };
enum { TOKENS = (VISION_SIDE / PATCH) * (VISION_SIDE / PATCH) + 1 };

typedef struct tower_tensor {
    const char *name; /* with %d for the layer */
    int rank;
    int64_t shape[4];
} tower_tensor;

static const tower_tensor hugging_face[] = {
    {"vit.embeddings.cls_token", 3, {1, 1, STREAM}},
    {"vit.embeddings.position_embeddings", 3, {1, TOKENS, STREAM}},
    {"vit.embeddings.patch_embeddings.projection.weight", 4, {STREAM, 3, PATCH, PATCH}},
    {"vit.embeddings.patch_embeddings.projection.bias", 1, {STREAM}},
    {"vit.encoder.layer.%d.layernorm_before.weight", 1, {STREAM}},
    {"vit.encoder.layer.%d.layernorm_before.bias", 1, {STREAM}},
    {"vit.encoder.layer.%d.attention.attention.query.weight", 2, {STREAM, STREAM}},
    {"vit.encoder.layer.%d.attention.attention.query.bias", 1, {STREAM}},
    {"vit.encoder.layer.%d.attention.attention.key.weight", 2, {STREAM, STREAM}},
    {"vit.encoder.layer.%d.attention.attention.key.bias", 1, {STREAM}},
    {"vit.encoder.layer.%d.attention.attention.value.weight", 2, {STREAM, STREAM}},
    {"vit.encoder.layer.%d.attention.attention.value.bias", 1, {STREAM}},
    {"vit.encoder.layer.%d.attention.output.dense.weight", 2, {STREAM, STREAM}},
    {"vit.encoder.layer.%d.attention.output.dense.bias", 1, {STREAM}},
    {"vit.encoder.layer.%d.layernorm_after.weight", 1, {STREAM}},
    {"vit.encoder.layer.%d.layernorm_after.bias", 1, {STREAM}},
    {"vit.encoder.layer.%d.intermediate.dense.weight", 2, {INNER, STREAM}},
    {"vit.encoder.layer.%d.intermediate.dense.bias", 1, {INNER}},
    {"vit.encoder.layer.%d.output.dense.weight", 2, {STREAM, INNER}},
    {"vit.encoder.layer.%d.output.dense.bias", 1, {STREAM}},
    {"vit.layernorm.weight", 1, {STREAM}},
    {"vit.layernorm.bias", 1, {STREAM}},
    {"classifier.weight", 2, {VISION_CLASSES, STREAM}},
    {"classifier.bias", 1, {VISION_CLASSES}},
};

static const tower_tensor timm[] = {
    {"cls_token", 3, {1, 1, STREAM}},
    {"pos_embed", 3, {1, TOKENS, STREAM}},
    {"patch_embed.proj.weight", 4, {STREAM, 3, PATCH, PATCH}},
    {"patch_embed.proj.bias", 1, {STREAM}},
    {"blocks.%d.norm1.weight", 1, {STREAM}},
    {"blocks.%d.norm1.bias", 1, {STREAM}},
    {"blocks.%d.attn.qkv.weight", 2, {3 * STREAM, STREAM}},
    {"blocks.%d.attn.qkv.bias", 1, {3 * STREAM}},
    {"blocks.%d.attn.proj.weight", 2, {STREAM, STREAM}},
    {"blocks.%d.attn.proj.bias", 1, {STREAM}},
    {"blocks.%d.norm2.weight", 1, {STREAM}},
    {"blocks.%d.norm2.bias", 1, {STREAM}},
    {"blocks.%d.mlp.fc1.weight", 2, {INNER, STREAM}},
    {"blocks.%d.mlp.fc1.bias", 1, {INNER}},
    {"blocks.%d.mlp.fc2.weight", 2, {STREAM, INNER}},
    {"blocks.%d.mlp.fc2.bias", 1, {STREAM}},
    {"norm.weight", 1, {STREAM}},
    {"norm.bias", 1, {STREAM}},
    {"head.weight", 2, {VISION_CLASSES, STREAM}},
    {"head.bias", 1, {VISION_CLASSES}},
};

static json_t *hugging_face_config(void)
{
    json_t *config =
        json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "architectures",
                  "ViTForImageClassification", "model_type", "vit", "hidden_act", "gelu",
                  "hidden_size", STREAM, "image_size", VISION_SIDE, "intermediate_size", INNER,
                  "num_attention_heads", STREAM / VISION_HEAD_DIM, "num_hidden_layers", LAYERS,
                  "patch_size", PATCH, "num_channels", 3, "qkv_bias", 1);
    assert_non_null(config);
    return config;
}

static void add_tower(lab_network *n, const tower_tensor *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int layers = strchr(list[i].name, '%') != NULL ? LAYERS : 1;
        for (int layer = 0; layer < layers; layer++) {
            char name[LAB_NETWORK_NAME];
            const char *d = strstr(list[i].name, "%d");
            if (d == NULL) {
                snprintf(name, sizeof name, "%s", list[i].name);
            } else {
                snprintf(name, sizeof name, "%.*s%d%s", (int)(d - list[i].name), list[i].name,
                         layer, d + 2);
            }
            lab_network_add(n, name, list[i].rank, list[i].shape);
        }
    }
}

static void list_tensors(vision_family family, lab_network *n)
{
    n->count = 0;
    if (family == VISION_HUGGING_FACE_VIT) {
        add_tower(n, hugging_face, sizeof hugging_face / sizeof hugging_face[0]);
    } else if (family == VISION_TIMM_VIT) {
        add_tower(n, timm, sizeof timm / sizeof timm[0]);
    } else {
        const lab_resnet r = resnet_of(family);
        lab_network_init(n, &r);
    }
}

int64_t vision_elements(const vision_tensor *t)
{
    int64_t count = 0;
    assert_true(shape_elements(t->shape.rank, t->shape.shape, &count));
    return count;
}

/* Matrices of a transformer are smaller than the formula makes them: each of its layers adds to the
 * residual stream, and scores that saturate would hide what happens before them. */
static void fill(vision_tensor *t, bool tower)
{
    if (t->shape.dtype != GRAIL_DTYPE_F32) {
        return;
    }
    const int64_t count = vision_elements(t);
    assert_ok(memory_new(&t->values, (size_t)count, sizeof t->values[0]));
    lab_shape_values(&t->shape, count, t->values);
    for (int64_t i = 0; tower && t->shape.rank == 2 && i < count; i++) {
        t->values[i] *= 0.5F;
    }
}

void vision_make(vision_model *m, vision_family family)
{
    static lab_network n;
    *m = (vision_model){0};
    list_tensors(family, &n);
    assert_true(n.count <= VISION_TENSORS);
    m->count = n.count;
    m->config = family == VISION_HUGGING_FACE_VIT ? hugging_face_config() : NULL;
    for (int i = 0; i < n.count; i++) {
        m->tensors[i].shape = n.tensors[i];
        fill(&m->tensors[i], vision_family_is_tower(family));
    }
}

void vision_fini(vision_model *m)
{
    json_decref(m->config);
    for (int i = 0; i < m->count; i++) {
        memory_free(m->tensors[i].values);
    }
    *m = (vision_model){0};
}

vision_tensor *vision_find(vision_model *m, const char *name)
{
    for (int i = 0; i < m->count; i++) {
        if (strcmp(m->tensors[i].shape.name, name) == 0) {
            return &m->tensors[i];
        }
    }
    fail_msg("there is no tensor '%s'", name);
    return NULL;
}

/* -- files ------------------------------------------------------------------------------------ */

static tensor_view view_of(const vision_tensor *t)
{
    tensor_view view = {.name = t->shape.name, .dtype = t->shape.dtype, .rank = t->shape.rank};
    memcpy(view.shape, t->shape.shape, sizeof t->shape.shape);
    return view;
}

static void put(tensor_writer *writer, const vision_tensor *t)
{
    const int64_t batches = 17; /* num_batches_tracked */
    const size_t bytes = (size_t)vision_elements(t) * sizeof t->values[0];
    if (t->values == NULL) {
        assert_ok(tensor_writer_put(writer, t->shape.name, &batches, sizeof batches));
    } else {
        assert_ok(tensor_writer_put(writer, t->shape.name, t->values, bytes));
    }
}

void vision_write(const vision_model *m, const char *directory)
{
    static tensor_view views[VISION_TENSORS];
    char path[LAB_PATH];
    OWNED(tensor_writer) *writer = NULL;
    assert_int_equal(mkdir(directory, 0777), 0);
    if (m->config != NULL) {
        snprintf(path, sizeof path, "%s/config.json", directory);
        assert_int_equal(json_dump_file(m->config, path, 0), 0);
    }
    for (int i = 0; i < m->count; i++) {
        views[i] = view_of(&m->tensors[i]);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    assert_ok(safetensors_writer_open(path, m->count, views, LAYOUT_NEW, &writer));
    for (int i = 0; i < m->count; i++) {
        put(writer, &m->tensors[i]);
    }
    assert_ok(tensor_writer_seal(writer));
}

static void read_one(const tensor_view *view, vision_tensor *t)
{
    *t = (vision_tensor){.shape = {.dtype = view->dtype, .rank = view->rank}};
    snprintf(t->shape.name, sizeof t->shape.name, "%s", view->name);
    assert_true(view->rank <= (int)(sizeof t->shape.shape / sizeof t->shape.shape[0]));
    memcpy(t->shape.shape, view->shape, sizeof t->shape.shape);
    if (dtype_is_weight(view->dtype)) {
        const int64_t count = vision_elements(t);
        assert_ok(memory_new(&t->values, (size_t)count, sizeof t->values[0]));
        assert_ok(convert_to_f32(view->dtype, view->data, count, t->values));
    }
}

void vision_read(vision_model *m, const char *path)
{
    *m = (vision_model){0};
    OPENED(checkpoint, c, checkpoint_open(path, &c));
    m->count = (int)checkpoint_count(c);
    assert_true(m->count <= VISION_TENSORS);
    for (int i = 0; i < m->count; i++) {
        read_one(checkpoint_at(c, i), &m->tensors[i]);
    }
}

void vision_write_torch(const char *directory, const char *to)
{
    checkpoint_writer *writer = NULL;
    static tensor_view views[VISION_TENSORS];
    OPENED(checkpoint, c, checkpoint_open(directory, &c));
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        views[i] = *checkpoint_at(c, i);
    }
    assert_int_equal(mkdir(to, 0777), 0);
    assert_ok(checkpoint_writer_open(to, c, &(written_form){.format = &weights_format_torch}, views,
                                     LAYOUT_NEW, &writer));
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        assert_ok(checkpoint_writer_put(writer, views[i].name, views[i].data, views[i].bytes));
    }
    assert_ok(checkpoint_writer_seal(writer));
    checkpoint_writer_close(writer);
}

/* -- images ----------------------------------------------------------------------------------- */

/* Records of a label and three planes: a wave of its own in every image, and noise. */
static void write_images(const char *path)
{
    enum { RECORD = 1 + 3 * VISION_SIDE * VISION_SIDE };
    static unsigned char records[VISION_IMAGES][RECORD];
    random_state random;
    random_seed(&random, 11, 0);
    for (int i = 0; i < VISION_IMAGES; i++) {
        const double x_wave = 0.8 * random_uniform(&random);
        const double y_wave = 0.8 * random_uniform(&random);
        records[i][0] = (unsigned char)(i % VISION_CLASSES);
        for (int k = 0; k < RECORD - 1; k++) {
            const int x = k % VISION_SIDE;
            const int y = k / VISION_SIDE % VISION_SIDE;
            const int colour = k / (VISION_SIDE * VISION_SIDE);
            const double wave = sin(x_wave * x + y_wave * y + colour * (0.5 + i));
            const double value = 128.0 + 60.0 * wave + 25.0 * random_normal(&random);
            records[i][1 + k] = (unsigned char)fmin(fmax(value, 0.0), 255.0);
        }
    }
    assert_int_equal(mkdir(path, 0777), 0);
    support_write_file(path, "data_batch_1.bin", records, sizeof records);
}

static void load_pixels(vision_lab *v)
{
    int64_t indices[VISION_IMAGES];
    random_state random;
    OPENED(grail_images, set, image_set_open(&v->images, &set));
    assert_ok(memory_new(&v->pixels, (size_t)VISION_IMAGES * VISION_SIDE * VISION_SIDE * 3,
                         sizeof v->pixels[0]));
    random_seed(&random, 0, 1);
    random_permutation(&random, VISION_IMAGES, indices);
    assert_ok(image_set_load(set, VISION_IMAGES, indices, v->pixels));
}

void vision_open(vision_lab *v)
{
    *v = (vision_lab){0};
    v->l.directory = support_temporary_directory();
    snprintf(v->data, sizeof v->data, "%s/images", v->l.directory);
    write_images(v->data);
    grail_image_source_init(&v->images);
    v->images.path = v->data;
    v->images.preset = "cifar";
    v->images.split = "train";
    load_pixels(v);
}

void vision_close(vision_lab *v)
{
    memory_free(v->pixels);
    lab_close(&v->l);
}

const char *vision_path(const vision_lab *v, const char *name)
{
    return lab_path(&v->l, name);
}

const char *vision_network(const vision_lab *v, vision_family family, const char *name)
{
    OWNED(vision_model) m;
    const char *path = vision_path(v, name);
    vision_make(&m, family);
    vision_write(&m, path);
    return path;
}

/* -- runs ------------------------------------------------------------------------------------- */

/* The setting that the tensor names of a transformer do not give; a run writes it into
 * grail.json. */
static const char *const tower_setting = "head_dim=8";

static bool needs_setting(const char *path)
{
    char own[LAB_PATH];
    snprintf(own, sizeof own, "%s/grail.json", path);
    OPENED(checkpoint, c, checkpoint_open(path, &c));
    const bool fused = checkpoint_find(c, "blocks.0.attn.qkv.weight") != NULL;
    return fused && !file_exists(own);
}

static const grail_model_options *reading_of(const char *path)
{
    static const grail_model_options tower = {.settings = &tower_setting, .setting_count = 1};
    return needs_setting(path) ? &tower : NULL;
}

grail_compress_options vision_options(const vision_lab *v, const char *model, const char *output)
{
    grail_compress_options options;
    grail_compress_options_init(&options);
    /* one choice at a time */
    options.cut.selector = "wanda";
    options.fit.refit = "none";
    options.fit.token_weights = "none";
    options.read.model = model;
    options.read.reading = reading_of(model);
    options.output.path = output;
    options.read.images = &v->images;
    options.cut.align = 1;
    options.cut.selector = "magnitude-l2";
    return options;
}

void vision_cut(grail_compress_options *options, double sparsity)
{
    options->amount.sparsity_conv = sparsity;
    options->amount.sparsity_stream = sparsity;
    options->amount.sparsity_ffn = sparsity;
    options->amount.sparsity_heads = sparsity;
}

int vision_stop_behind_first_block(void *user, const grail_site_report *one, int block, int blocks,
                                   double left)
{
    return one == NULL && block == 0;
}

grail_model *vision_model_open(const char *path)
{
    grail_model *m = NULL;
    assert_ok(grail_model_open_with(path, reading_of(path), &m));
    return m;
}

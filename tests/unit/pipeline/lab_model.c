#include "lab_model.h"

#include "format/weights/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Paths live in a ring: a test holds a few at a time. */
char *lab_next_path(void)
{
    enum { PATHS = 4096 };
    static char paths[PATHS][LAB_PATH];
    static int next;
    return paths[next++ % PATHS];
}

const char *lab_golden(const char *name)
{
    char *path = lab_next_path();
    snprintf(path, LAB_PATH, "%s/tests/golden/models/%s", GRAIL_SOURCE_DIR, name);
    return path;
}

json_t *read_json(const char *directory, const char *name)
{
    char path[LAB_PATH];
    json_t *value = NULL;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(json_read_file(path, (size_t)1 << 24, &value));
    return value;
}

static void read_tensor(const tensor_view *view, lab_tensor *out)
{
    int64_t count = 0;
    *out = (lab_tensor){.rank = view->rank};
    memcpy(out->shape, view->shape, (size_t)view->rank * sizeof out->shape[0]);
    assert_true(view->rank >= 1 && view->rank <= LAB_RANK);
    snprintf(out->name, sizeof out->name, "%s", view->name);
    assert_true(shape_elements(view->rank, view->shape, &count));
    assert_ok(memory_new(&out->values, (size_t)count, sizeof out->values[0]));
    assert_ok(convert_to_f32(view->dtype, view->data, count, out->values));
}

void lab_read(lab_model *m, const char *directory)
{
    *m = (lab_model){.config = read_json(directory, "config.json")};
    OPENED(checkpoint, c, checkpoint_open(directory, &c));
    m->count = (int)checkpoint_count(c);
    assert_true(m->count <= LAB_TENSORS);
    for (int i = 0; i < m->count; i++) {
        read_tensor(checkpoint_at(c, i), &m->tensors[i]);
    }
}

int64_t lab_elements(const lab_tensor *t)
{
    int64_t elements = 1;
    for (int d = 0; d < t->rank; d++) {
        elements *= t->shape[d];
    }
    return elements;
}

static void put_tensor(tensor_writer *writer, const lab_tensor *t, grail_dtype dtype)
{
    void *stored = NULL;
    size_t bytes = 0;
    assert_true(dtype_bytes(dtype, lab_elements(t), &bytes));
    assert_ok(memory_new(&stored, bytes, 1));
    assert_ok(convert_from_f32(dtype, t->values, lab_elements(t), stored));
    assert_ok(tensor_writer_put(writer, t->name, stored, bytes));
    memory_free(stored);
}

void lab_write(const lab_model *m, const char *directory, grail_dtype dtype)
{
    tensor_view views[LAB_TENSORS] = {0};
    char path[LAB_PATH];
    OWNED(tensor_writer) *writer = NULL;
    assert_int_equal(mkdir(directory, 0777), 0);
    snprintf(path, sizeof path, "%s/config.json", directory);
    assert_int_equal(json_dump_file(m->config, path, 0), 0);
    for (int i = 0; i < m->count; i++) {
        const lab_tensor *t = &m->tensors[i];
        views[i] = (tensor_view){.name = t->name, .dtype = dtype, .rank = t->rank};
        memcpy(views[i].shape, t->shape, sizeof t->shape);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    assert_ok(safetensors_writer_open(path, m->count, views, LAYOUT_NEW, &writer));
    for (int i = 0; i < m->count; i++) {
        put_tensor(writer, &m->tensors[i], dtype);
    }
    assert_ok(tensor_writer_seal(writer));
}

void lab_fini(lab_model *m)
{
    json_decref(m->config);
    for (int i = 0; i < m->count; i++) {
        memory_free(m->tensors[i].values);
    }
    *m = (lab_model){0};
}

lab_tensor *lab_look(lab_model *m, int layer, const char *part)
{
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.%s", layer, part);
    for (int i = 0; i < m->count; i++) {
        if (strcmp(m->tensors[i].name, name) == 0) {
            return &m->tensors[i];
        }
    }
    return NULL;
}

lab_tensor *lab_find(lab_model *m, int layer, const char *part)
{
    lab_tensor *t = lab_look(m, layer, part);
    assert_non_null(t);
    return t;
}

static void add_bias(lab_model *m, int layer, const char *part)
{
    char weight[64];
    char bias[64];
    snprintf(weight, sizeof weight, "%s.weight", part);
    snprintf(bias, sizeof bias, "%s.bias", part);
    if (lab_look(m, layer, bias) != NULL) {
        return;
    }
    assert_true(m->count < LAB_TENSORS);
    lab_tensor *t = &m->tensors[m->count];
    *t = (lab_tensor){.rank = 1, .shape = {lab_find(m, layer, weight)->shape[0]}};
    snprintf(t->name, sizeof t->name, "model.layers.%d.%s", layer, bias);
    assert_ok(memory_new(&t->values, (size_t)t->shape[0], sizeof t->values[0]));
    support_fill_normal(t->values, t->shape[0], (uint64_t)m->count++);
}

void lab_add_biases(lab_model *m)
{
    static const char *const parts[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                        "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                        "mlp.down_proj"};
    for (int layer = 0; layer < (int)lab_integer(m, "num_hidden_layers"); layer++) {
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            add_bias(m, layer, parts[i]);
        }
    }
    assert_ok(json_put(m->config, "attention_bias", json_true()));
    assert_ok(json_put(m->config, "mlp_bias", json_true()));
}

int64_t lab_integer(const lab_model *m, const char *key)
{
    return json_integer_value(json_object_get(m->config, key));
}

void lab_set_integer(lab_model *m, const char *key, int64_t value)
{
    assert_ok(json_put(m->config, key, json_integer(value)));
}

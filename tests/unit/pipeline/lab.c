#include "lab.h"

#include "base/file.h"
#include "base/random.h"
#include "format/checkpoint.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* Paths live in a ring: a test holds a few at a time. */
static char *next_path(void)
{
    enum { PATHS = 32 };
    static char paths[PATHS][LAB_PATH];
    static int next;
    return paths[next++ % PATHS];
}

const char *lab_golden(const char *name)
{
    char *path = next_path();
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
    *out = (lab_tensor){.rank = view->rank, .shape = {view->shape[0], view->shape[1]}};
    assert_true(view->rank >= 1 && view->rank <= 2);
    snprintf(out->name, sizeof out->name, "%s", view->name);
    assert_true(shape_elements(view->rank, view->shape, &count));
    assert_ok(memory_new(&out->values, (size_t)count, sizeof out->values[0]));
    assert_ok(convert_to_f32(view->dtype, view->data, count, out->values));
}

void lab_read(lab_model *m, const char *directory)
{
    checkpoint *c = NULL;
    *m = (lab_model){.config = read_json(directory, "config.json")};
    assert_ok(checkpoint_open(directory, &c));
    m->count = (int)checkpoint_count(c);
    assert_true(m->count <= LAB_TENSORS);
    for (int i = 0; i < m->count; i++) {
        read_tensor(checkpoint_at(c, i), &m->tensors[i]);
    }
    checkpoint_close(c);
}

static int64_t elements_of(const lab_tensor *t)
{
    return t->rank == 1 ? t->shape[0] : t->shape[0] * t->shape[1];
}

static void put_tensor(safetensors_writer *writer, const lab_tensor *t, grail_dtype dtype)
{
    void *stored = NULL;
    size_t bytes = 0;
    assert_true(dtype_bytes(dtype, elements_of(t), &bytes));
    assert_ok(memory_new(&stored, bytes, 1));
    assert_ok(convert_from_f32(dtype, t->values, elements_of(t), stored));
    assert_ok(safetensors_writer_put(writer, t->name, stored, bytes));
    memory_free(stored);
}

void lab_write(const lab_model *m, const char *directory, grail_dtype dtype)
{
    tensor_view views[LAB_TENSORS] = {0};
    char path[LAB_PATH];
    safetensors_writer *writer = NULL;
    assert_int_equal(mkdir(directory, 0777), 0);
    snprintf(path, sizeof path, "%s/config.json", directory);
    assert_ok(json_write_file(path, m->config));
    for (int i = 0; i < m->count; i++) {
        const lab_tensor *t = &m->tensors[i];
        views[i] = (tensor_view){
            .name = t->name, .dtype = dtype, .rank = t->rank, .shape = {t->shape[0], t->shape[1]}};
    }
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    assert_ok(safetensors_writer_open(path, m->count, views, false, &writer));
    for (int i = 0; i < m->count; i++) {
        put_tensor(writer, &m->tensors[i], dtype);
    }
    assert_ok(safetensors_writer_sync(writer));
    safetensors_writer_close(writer);
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

int64_t lab_integer(const lab_model *m, const char *key)
{
    return json_integer_value(json_object_get(m->config, key));
}

void lab_set_integer(lab_model *m, const char *key, int64_t value)
{
    assert_ok(json_put(m->config, key, json_integer(value)));
}

/* A version 1.0 .npy file of little-endian int32 [rows, columns]. */
static void write_ids(const char *directory, const char *name, int64_t rows, int64_t columns,
                      const int32_t *ids)
{
    enum { HEADER = 128, PREFIX = 10 };
    unsigned char file[HEADER + LAB_SAMPLES * LAB_LENGTH * sizeof ids[0]];
    const size_t bytes = (size_t)(rows * columns) * sizeof ids[0];
    assert_true(HEADER + bytes <= sizeof file);
    memset(file, ' ', HEADER);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", PREFIX);
    const int length = snprintf((char *)file + PREFIX, HEADER - PREFIX,
                                "{'descr': '<i4', 'fortran_order': False, 'shape': (%lld, %lld)}",
                                (long long)rows, (long long)columns);
    file[PREFIX + length] = ' '; /* over the terminating zero */
    file[HEADER - 1] = '\n';
    memcpy(file + HEADER, ids, bytes);
    support_write_file(directory, name, file, HEADER + bytes);
}

void lab_open(lab *l)
{
    enum { VOCABULARY = 96 };
    int32_t ids[LAB_SAMPLES * LAB_LENGTH];
    random_state random;
    random_seed(&random, 7, 0);
    for (int i = 0; i < LAB_SAMPLES * LAB_LENGTH; i++) {
        ids[i] = (int32_t)random_below(&random, VOCABULARY);
    }
    l->directory = support_temporary_directory();
    write_ids(l->directory, "ids.npy", LAB_SAMPLES, LAB_LENGTH, ids);
    snprintf(l->calibration, sizeof l->calibration, "%s/ids.npy", l->directory);
}

void lab_close(lab *l)
{
    support_remove_tree(l->directory);
    memory_free(l->directory);
}

const char *lab_path(const lab *l, const char *name)
{
    char *path = next_path();
    snprintf(path, LAB_PATH, "%s/%s", l->directory, name);
    return path;
}

const char *lab_f32(const lab *l, const char *golden, const char *name)
{
    lab_model m;
    const char *path = lab_path(l, name);
    lab_read(&m, lab_golden(golden));
    lab_write(&m, path, GRAIL_DTYPE_F32);
    lab_fini(&m);
    return path;
}

grail_compress_options lab_options(const lab *l, const char *model, const char *output)
{
    grail_compress_options options;
    grail_compress_options_init(&options);
    options.model = model;
    options.output = output;
    options.calibration.path = l->calibration;
    options.calibration.context = LAB_LENGTH;
    options.sparsity_ffn = 0.25;
    options.sparsity_heads = 0.5;
    options.align = 1;
    return options;
}

static grail_status compress(const grail_compress_options *options, grail_site_report *reports,
                             int most, int *count)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    TRY(grail_compression_open(options, &c));
    TRY(grail_compression_run(c));
    TRY(grail_compression_finish(c));
    *count = grail_compression_site_count(c);
    for (int i = 0; i < *count && i < most; i++) {
        reports[i] = grail_compression_site(c, i);
        reports[i].name = NULL;
        reports[i].kind = NULL;
    }
out:
    grail_compression_close(c);
    return status;
}

grail_status lab_compress(const grail_compress_options *options)
{
    int count = 0;
    return compress(options, NULL, 0, &count);
}

int lab_compress_reports(const grail_compress_options *options, grail_site_report *reports,
                         int most)
{
    int count = 0;
    assert_ok(compress(options, reports, most, &count));
    assert_true(count <= most);
    return count;
}

static bool same_view(const tensor_view *a, const tensor_view *b)
{
    return a != NULL && b != NULL && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0 &&
           a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

void assert_same_checkpoint(const char *left, const char *right)
{
    checkpoint *a = NULL;
    checkpoint *b = NULL;
    assert_ok(checkpoint_open(left, &a));
    assert_ok(checkpoint_open(right, &b));
    assert_int_equal(checkpoint_count(a), checkpoint_count(b));
    for (int64_t i = 0; i < checkpoint_count(a); i++) {
        const tensor_view *tensor = checkpoint_at(a, i);
        if (!same_view(tensor, checkpoint_find(b, tensor->name))) {
            fail_msg("'%s' differs between %s and %s", tensor->name, left, right);
        }
    }
    checkpoint_close(a);
    checkpoint_close(b);
}

bool same_tensor(const char *left, const char *right, const char *name)
{
    checkpoint *a = NULL;
    checkpoint *b = NULL;
    assert_ok(checkpoint_open(left, &a));
    assert_ok(checkpoint_open(right, &b));
    assert_non_null(checkpoint_find(a, name));
    const bool same = same_view(checkpoint_find(a, name), checkpoint_find(b, name));
    checkpoint_close(a);
    checkpoint_close(b);
    return same;
}

static double tensor_difference(const lab_tensor *a, const lab_tensor *b)
{
    double largest = 0.0;
    double difference = 0.0;
    assert_string_equal(a->name, b->name);
    assert_int_equal(elements_of(a), elements_of(b));
    for (int64_t i = 0; i < elements_of(a); i++) {
        const double x = (double)a->values[i];
        largest = fmax(largest, fabs(x));
        difference = fmax(difference, fabs(x - (double)b->values[i]));
    }
    return largest > 0.0 ? difference / largest : difference;
}

double largest_weight_difference(const char *left, const char *right)
{
    lab_model a;
    lab_model b;
    double largest = 0.0;
    lab_read(&a, left);
    lab_read(&b, right);
    assert_int_equal(a.count, b.count);
    for (int i = 0; i < a.count; i++) {
        largest = fmax(largest, tensor_difference(&a.tensors[i], &b.tensors[i]));
    }
    lab_fini(&a);
    lab_fini(&b);
    return largest;
}

grail_comparison compare_models(const char *dense, const char *narrow, const char *backend)
{
    grail_model *a = NULL;
    grail_model *b = NULL;
    grail_comparison result = {0};
    assert_ok(grail_model_open(dense, &a));
    assert_ok(grail_model_open(narrow, &b));
    assert_ok(grail_verify(a, b, NULL, 0, backend, &result));
    grail_model_close(a);
    grail_model_close(b);
    return result;
}

bool lab_is_repaired(const grail_site_report *site)
{
    const bool plain = strcmp(site->fallback, "kept plain") == 0;
    return plain ? site->fit_after == site->fit_before : site->fit_after < site->fit_before;
}

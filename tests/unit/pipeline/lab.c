#include "lab.h"

#include "backend/backend.h"
#include "base/random.h"
#include "format/weights/checkpoint.h"

#include <math.h>
#include <string.h>

/* A version 1.0 .npy file of little-endian int32 [rows, columns]. */
void lab_write_ids(const lab *l, const char *name, int64_t rows, int64_t columns,
                   const int32_t *ids)
{
    enum { HEADER = 128, PREFIX = 10 };
    unsigned char *file = NULL;
    const size_t bytes = (size_t)(rows * columns) * sizeof ids[0];
    assert_ok(memory_new_unset(&file, HEADER + bytes, 1));
    memset(file, ' ', HEADER);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", PREFIX);
    const int length = snprintf((char *)file + PREFIX, HEADER - PREFIX,
                                "{'descr': '<i4', 'fortran_order': False, 'shape': (%lld, %lld)}",
                                (long long)rows, (long long)columns);
    file[PREFIX + length] = ' '; /* over the terminating zero */
    file[HEADER - 1] = '\n';
    memcpy(file + HEADER, ids, bytes);
    support_write_file(l->directory, name, file, HEADER + bytes);
    memory_free(file);
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
    lab_write_ids(l, "ids.npy", LAB_SAMPLES, LAB_LENGTH, ids);
    snprintf(l->calibration, sizeof l->calibration, "%s/ids.npy", l->directory);
}

void lab_close(lab *l)
{
    support_remove_tree(l->directory);
    memory_free(l->directory);
}

const char *lab_path(const lab *l, const char *name)
{
    return lab_path_of(l, "%s", name);
}

const char *lab_path_of(const lab *l, const char *format, ...)
{
    char *path = lab_next_path();
    const int length = snprintf(path, LAB_PATH, "%s/", l->directory);
    va_list values;
    va_start(values, format);
    vsnprintf(path + length, (size_t)(LAB_PATH - length), format, values);
    va_end(values);
    return path;
}

const char *lab_f32(const lab *l, const char *golden, const char *name)
{
    OWNED(lab_model) m;
    const char *path = lab_path(l, name);
    lab_read(&m, lab_golden(golden));
    lab_write(&m, path, GRAIL_DTYPE_F32);
    return path;
}

const char *lab_with_biases(const lab *l, const char *golden, const char *name)
{
    OWNED(lab_model) m;
    const char *path = lab_path(l, name);
    lab_read(&m, lab_golden(golden));
    lab_add_biases(&m);
    lab_write(&m, path, GRAIL_DTYPE_F32);
    return path;
}

grail_compress_options lab_options(const lab *l, const char *model, const char *output)
{
    grail_compress_options options;
    grail_compress_options_init(&options);
    /* one choice at a time */
    options.cut.selector = "wanda";
    options.fit.refit = "none";
    options.fit.token_weights = "none";
    options.read.model = model;
    options.output.path = output;
    options.read.text.path = l->calibration;
    options.read.text.context = LAB_LENGTH;
    options.amount.sparsity_ffn = 0.25;
    options.amount.sparsity_heads = 0.5;
    options.cut.align = 1;
    return options;
}

static grail_status compress(const grail_compress_options *options, grail_site_report *reports,
                             int most, int *count)
{
    OWNED(grail_compression) *c = NULL;
    CHECK(grail_compression_open(options, &c));
    CHECK(grail_compression_run(c));
    CHECK(grail_compression_finish(c));
    *count = grail_compression_site_count(c);
    for (int i = 0; i < *count && i < most; i++) {
        reports[i] = grail_compression_site(c, i);
        reports[i].name = NULL;
        reports[i].kind = NULL;
        reports[i].fits = NULL;
    }
    return GRAIL_OK;
}

grail_status lab_compress_rank(const grail_compress_options *options, int rank)
{
    OWNED(grail_compression) *c = NULL;
    CHECK(grail_compression_open(options, &c));
    CHECK(grail_compression_run(c));
    return rank == 0 ? grail_compression_finish(c) : GRAIL_OK;
}

grail_status lab_compress(const grail_compress_options *options)
{
    return lab_compress_rank(options, 0);
}

void lab_fail_allocations(grail_compress_options options)
{
    grail_status status = GRAIL_ERROR_MEMORY;
    char model[LAB_PATH];
    char output[LAB_PATH];
    char partial[LAB_PATH + 16];
    snprintf(model, sizeof model, "%s", options.read.model); /* lab_path forgets them */
    snprintf(output, sizeof output, "%s", options.output.path);
    snprintf(partial, sizeof partial, "%s.partial", output);
    options.read.model = model;
    options.output.path = output;
    for (int64_t n = 1; status != GRAIL_OK; n = support_next_failure(n)) {
        memory_fail_after(n);
        status = lab_compress(&options);
        memory_fail_after(-1);
        assert_true(status == GRAIL_OK || status == GRAIL_ERROR_MEMORY);
        if (status != GRAIL_OK && file_exists(output)) { /* it failed while it tidied up */
            assert_non_null(strstr(grail_error_message(), "the result is complete"));
            support_remove_tree(output);
        }
        assert_true(status != GRAIL_OK || file_exists(output));
        support_remove_tree(partial);
    }
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
    OPENED(checkpoint, a, checkpoint_open(left, &a));
    OPENED(checkpoint, b, checkpoint_open(right, &b));
    assert_ok(checkpoint_load(a));
    assert_ok(checkpoint_load(b));
    assert_int_equal(checkpoint_count(a), checkpoint_count(b));
    for (int64_t i = 0; i < checkpoint_count(a); i++) {
        const tensor_view *tensor = checkpoint_at(a, i);
        if (!same_view(tensor, checkpoint_find(b, tensor->name))) {
            fail_msg("'%s' differs between %s and %s", tensor->name, left, right);
        }
    }
}

bool same_tensor(const char *left, const char *right, const char *name)
{
    OPENED(checkpoint, a, checkpoint_open(left, &a));
    OPENED(checkpoint, b, checkpoint_open(right, &b));
    assert_non_null(checkpoint_find(a, name));
    return same_view(checkpoint_find(a, name), checkpoint_find(b, name));
}

static double tensor_difference(const lab_tensor *a, const lab_tensor *b)
{
    double largest = 0.0;
    double difference = 0.0;
    assert_string_equal(a->name, b->name);
    assert_int_equal(lab_elements(a), lab_elements(b));
    for (int64_t i = 0; i < lab_elements(a); i++) {
        const double x = (double)a->values[i];
        largest = fmax(largest, fabs(x));
        difference = fmax(difference, fabs(x - (double)b->values[i]));
    }
    return largest > 0.0 ? difference / largest : difference;
}

double largest_weight_difference(const char *left, const char *right)
{
    OWNED(lab_model) a;
    OWNED(lab_model) b;
    double largest = 0.0;
    lab_read(&a, left);
    lab_read(&b, right);
    assert_int_equal(a.count, b.count);
    for (int i = 0; i < a.count; i++) {
        largest = fmax(largest, tensor_difference(&a.tensors[i], &b.tensors[i]));
    }
    return largest;
}

grail_status lab_opens(const void *options)
{
    OWNED(grail_compression) *c = NULL;
    return grail_compression_open(options, &c);
}

grail_compression *lab_run_in_memory(grail_compress_options options)
{
    grail_compression *c = NULL;
    options.output.path = NULL;
    assert_ok(grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    return c;
}

grail_comparison compare_models(const char *dense, const char *narrow, const char *backend)
{
    grail_comparison result = {0};
    OPENED(grail_model, a, grail_model_open(dense, &a));
    OPENED(grail_model, b, grail_model_open(narrow, &b));
    assert_ok(
        grail_verify(a, b, NULL, 0, &(grail_compute){.backend = backend}, NULL, NULL, &result));
    return result;
}

double lab_divergence(const char *dense, const char *narrow)
{
    return compare_models(dense, narrow, "cpu").mean_kl;
}

bool lab_is_for_experts(const char *selector)
{
    return strcmp(selector, "reap") == 0;
}

bool lab_is_repaired(const grail_site_report *site)
{
    const bool plain = strcmp(site->fit.fallback, "kept plain") == 0;
    return plain ? site->fit.fit_after == site->fit.fit_before
                 : site->fit.fit_after < site->fit.fit_before;
}

bool lab_computes_bf16(const char *what)
{
    backend *b = NULL;
    const grail_status status = backend_open("cpu", &(backend_options){.precision = "bf16"}, &b);
    if (status == GRAIL_ERROR_UNSUPPORTED) {
        print_message("left out, %s: %s\n", what, grail_error_message());
        return false;
    }
    assert_ok(status);
    backend_close(b);
    return true;
}

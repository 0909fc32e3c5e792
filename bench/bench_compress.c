/* A complete compression of a synthetic Llama-shaped model: time against the measured peak over all
 * counted operations, and peak resident memory against its bound.
 *
 *   bench_compress [--layers 2] [--hidden 4096] [--ffn 11008] [--heads 32] [--vocabulary 32000]
 *                  [--samples 8] [--context 2048] [--percent 30] [--threads N]
 *
 * Products in f32 are compared with the sgemm peak, those of the solve in f64 with the dgemm peak:
 * ideal seconds = flops32 / peak32 + flops64 / peak64. */
#include "bench.h"

#include "base/file.h"
#include "base/random.h"
#include "format/weights/safetensors.h"

#include <grail/grail.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct shape {
    int64_t layers, hidden, ffn, heads, vocabulary, samples, context, percent;
} shape;

enum { TENSORS_PER_LAYER = 9, OUTER_TENSORS = 3, NAME_SIZE = 96 };

typedef struct tensor_list {
    tensor_view *views;
    char (*names)[NAME_SIZE];
    int64_t count;
} tensor_list;

static void add_tensor(tensor_list *list, int layer, const char *part, int64_t rows,
                       int64_t columns)
{
    char *name = list->names[list->count];
    if (layer < 0) {
        snprintf(name, NAME_SIZE, "%s", part);
    } else {
        snprintf(name, NAME_SIZE, "model.layers.%d.%s.weight", layer, part);
    }
    list->views[list->count++] = (tensor_view){.name = name,
                                               .dtype = GRAIL_DTYPE_BF16,
                                               .rank = columns > 0 ? 2 : 1,
                                               .shape = {rows, columns}};
}

static tensor_list list_tensors(const shape *s)
{
    tensor_list list = {0};
    const size_t most = (size_t)(s->layers * TENSORS_PER_LAYER + OUTER_TENSORS);
    bench_check(memory_new(&list.views, most, sizeof list.views[0]));
    bench_check(memory_new(&list.names, most, sizeof list.names[0]));
    add_tensor(&list, -1, "model.embed_tokens.weight", s->vocabulary, s->hidden);
    add_tensor(&list, -1, "model.norm.weight", s->hidden, 0);
    add_tensor(&list, -1, "lm_head.weight", s->vocabulary, s->hidden);
    for (int i = 0; i < s->layers; i++) {
        add_tensor(&list, i, "input_layernorm", s->hidden, 0);
        add_tensor(&list, i, "post_attention_layernorm", s->hidden, 0);
        add_tensor(&list, i, "self_attn.q_proj", s->hidden, s->hidden);
        add_tensor(&list, i, "self_attn.k_proj", s->hidden, s->hidden);
        add_tensor(&list, i, "self_attn.v_proj", s->hidden, s->hidden);
        add_tensor(&list, i, "self_attn.o_proj", s->hidden, s->hidden);
        add_tensor(&list, i, "mlp.gate_proj", s->ffn, s->hidden);
        add_tensor(&list, i, "mlp.up_proj", s->ffn, s->hidden);
        add_tensor(&list, i, "mlp.down_proj", s->hidden, s->ffn);
    }
    return list;
}

/* Uniform values of the usual scale, 1/sqrt(columns); norms are 1. Cheap, since it makes
 * gigabytes. */
static void write_tensor(safetensors_writer *writer, const tensor_view *view, uint64_t seed)
{
    int64_t count = 0;
    shape_elements(view->rank, view->shape, &count);
    uint16_t *values = NULL;
    float *row = NULL;
    random_state random;
    random_seed(&random, seed, 0);
    bench_check(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    bench_check(memory_new_unset(&row, (size_t)count, sizeof row[0]));
    const float scale = view->rank == 2 ? 1.7F / sqrtf((float)view->shape[1]) : 0.0F;
    for (int64_t i = 0; i < count; i++) {
        const float u = (float)(random_next(&random) >> 40) * 0x1.0p-24F;
        row[i] = view->rank == 2 ? scale * (2.0F * u - 1.0F) : 1.0F;
    }
    bench_check(convert_from_f32(GRAIL_DTYPE_BF16, row, count, values));
    bench_check(
        safetensors_writer_put(writer, view->name, values, (size_t)count * sizeof values[0]));
    memory_free(values);
    memory_free(row);
}

static void write_model(const char *directory, const shape *s)
{
    char path[512];
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    tensor_list list = list_tensors(s);
    safetensors_writer *writer = NULL;
    bench_check(safetensors_writer_open(path, list.count, list.views, LAYOUT_NEW, &writer));
    for (int64_t i = 0; i < list.count; i++) {
        write_tensor(writer, &list.views[i], (uint64_t)i);
    }
    bench_check(safetensors_writer_seal(writer));
    safetensors_writer_close(writer);
    memory_free(list.views);
    memory_free(list.names);
    snprintf(path, sizeof path, "%s/config.json", directory);
    json_t *config = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b}", "model_type", "llama", "hidden_size",
        (json_int_t)s->hidden, "intermediate_size", (json_int_t)s->ffn, "num_hidden_layers",
        (json_int_t)s->layers, "num_attention_heads", (json_int_t)s->heads, "vocab_size",
        (json_int_t)s->vocabulary, "max_position_embeddings", (json_int_t)s->context,
        "rms_norm_eps", 1e-5, "tie_word_embeddings", 0);
    if (json_dump_file(config, path, 0) != 0) {
        bench_check(error_set(GRAIL_ERROR_IO, "cannot write '%s'", path));
    }
    json_decref(config);
}

/* Token ids as .npy, version 1.0: the header is padded to a multiple of 64 bytes. */
static void write_ids(const char *path, const shape *s)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        fprintf(stderr, "cannot create %s\n", path);
        exit(1);
    }
    char header[118];
    memset(header, ' ', sizeof header);
    const int used = snprintf(header, sizeof header,
                              "{'descr': '<i4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                              (long long)s->samples, (long long)s->context);
    header[used] = ' ';
    header[sizeof header - 1] = '\n';
    const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, sizeof header, 0};
    fwrite(magic, 1, sizeof magic, file);
    fwrite(header, 1, sizeof header, file);
    random_state random;
    random_seed(&random, 7, 0);
    for (int64_t i = 0; i < s->samples * s->context; i++) {
        const int32_t id = (int32_t)random_below(&random, s->vocabulary);
        fwrite(&id, sizeof id, 1, file);
    }
    fclose(file);
}

typedef struct operations {
    double f32, f64;
} operations;

/* One ridge: R of H features removed, K kept, O outputs; alphas tried on at most 512 outputs. */
static double solve_flops(double h, double k, double outputs, bool residual)
{
    const double alphas = 5.0;
    const double measured = outputs < 512.0 ? outputs : 512.0;
    const double parts = 2.0; /* fit and held out */
    const double removed = h - k;
    const double residual_cross =
        residual ? parts * 2.0 * outputs * removed * k : parts * 2.0 * outputs * k * k;
    const double squares = parts * 2.0 * measured * (residual ? h * h + removed * removed : 0.0);
    const double tried =
        alphas * (k * k * k / 3.0 + 2.0 * measured * k * k + 2.0 * measured * k * k);
    const double errors = 2.0 * measured * k * k;
    const double last = k * k * k / 3.0 + 2.0 * outputs * k * k;
    return residual_cross + squares + tried + errors + last;
}

static operations count_operations(const shape *s, double narrow_heads, double narrow_ffn)
{
    const double t = (double)(s->samples * s->context);
    const double e = (double)s->hidden;
    const double f = (double)s->ffn;
    operations o = {0};
    o.f32 += 2.0 * t * e * e * 3.0;            /* q, k, v */
    o.f32 += 2.0 * t * (double)s->context * e; /* causal scores and values */
    o.f32 += t * e * (e + 1.0);                /* Gram, counted as symmetric */
    o.f32 += 2.0 * t * narrow_heads * e;       /* o */
    o.f32 += 2.0 * t * e * f * 2.0;            /* gate, up */
    o.f32 += t * f * (f + 1.0);                /* Gram */
    o.f32 += 2.0 * t * narrow_ffn * e;         /* down */
    o.f64 += solve_flops(e, narrow_heads, e, true) + solve_flops(f, narrow_ffn, e, true);
    o.f32 *= (double)s->layers;
    o.f64 *= (double)s->layers;
    return o;
}

static double peak_resident(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

/* The bound: one block in f32, its statistics (fit and held out, f64), the sample streams, 300
 * MB. */
static double memory_bound(const shape *s)
{
    const double e = (double)s->hidden;
    const double f = (double)s->ffn;
    const double t = (double)(s->samples * s->context);
    return 4.0 * (4.0 * e * e + 3.0 * e * f) + 2.0 * 8.0 * f * f + 4.0 * t * (e + f) + 300e6;
}

static void compress(const char *directory, const shape *s, json_t *report)
{
    char model[512], out[512], ids[512];
    snprintf(model, sizeof model, "%s", directory);
    snprintf(out, sizeof out, "%s-narrow", directory);
    snprintf(ids, sizeof ids, "%s/ids.npy", directory);
    grail_machine before = {0};
    grail_machine after = {0};
    grail_compression *c = NULL;
    grail_compress_options options;
    grail_compress_options_init(&options);
    options.model = model;
    options.output = out;
    options.calibration = (grail_text_source){.path = ids, .context = s->context};
    options.sparsity_ffn = options.sparsity_heads = 0.01 * (double)s->percent;
    options.target = "local";
    bench_check(grail_machine_examine(2.0, &before));
    const double start = bench_now();
    bench_check(grail_compression_open(&options, &c));
    bench_check(grail_compression_run(c));
    bench_check(grail_compression_finish(c));
    const double seconds = bench_now() - start;
    const double resident = peak_resident();
    bench_check(grail_machine_examine(2.0, &after));
    const grail_site_report heads = grail_compression_site(c, 0);
    const grail_site_report ffn = grail_compression_site(c, 1);
    const operations o = count_operations(s, (double)heads.narrow, (double)ffn.narrow);
    const double peak32 = 1e9 * fmax(before.sgemm_gflops, after.sgemm_gflops);
    const double peak64 = 1e9 * fmax(before.dgemm_gflops, after.dgemm_gflops);
    bench_check(json_put(report, "seconds", json_real(seconds)));
    bench_check(json_put(report, "flops_f32", json_real(o.f32)));
    bench_check(json_put(report, "flops_f64", json_real(o.f64)));
    bench_check(json_put(report, "sgemm_peak_gflops", json_real(peak32 * 1e-9)));
    bench_check(json_put(report, "dgemm_peak_gflops", json_real(peak64 * 1e-9)));
    bench_check(
        json_put(report, "ratio_of_peak", json_real((o.f32 / peak32 + o.f64 / peak64) / seconds)));
    bench_check(json_put(report, "heads_seconds", json_real(heads.seconds)));
    bench_check(json_put(report, "heads_solve_seconds", json_real(heads.solve_seconds)));
    bench_check(json_put(report, "ffn_seconds", json_real(ffn.seconds)));
    bench_check(json_put(report, "ffn_solve_seconds", json_real(ffn.solve_seconds)));
    bench_check(json_put(report, "threads", json_integer(grail_threads())));
    bench_check(json_put(report, "peak_resident_bytes", json_real(resident)));
    bench_check(json_put(report, "bound_bytes", json_real(memory_bound(s))));
    bench_check(json_put(report, "stream_bytes",
                         json_real(4.0 * (double)(s->samples * s->context * s->hidden))));
    grail_compression_close(c);
}

static void remove_tree(const char *path)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf -- '%s'", path);
    if (system(command) != 0) {
        fprintf(stderr, "cannot remove %s\n", path);
    }
}

int main(int count, char **arguments)
{
    const shape s = {
        .layers = bench_option(count, arguments, "layers", 2),
        .hidden = bench_option(count, arguments, "hidden", 4096),
        .ffn = bench_option(count, arguments, "ffn", 11008),
        .heads = bench_option(count, arguments, "heads", 32),
        .vocabulary = bench_option(count, arguments, "vocabulary", 32000),
        .samples = bench_option(count, arguments, "samples", 8),
        .context = bench_option(count, arguments, "context", 2048),
        .percent = bench_option(count, arguments, "percent", 30),
    };
    bench_set_threads(count, arguments);
    char directory[] = "/tmp/grail-bench-XXXXXX";
    if (mkdtemp(directory) == NULL) {
        fprintf(stderr, "cannot create a directory in /tmp\n");
        return 1;
    }
    char path[512];
    json_t *report = json_object();
    bench_check(json_put(report, "layers", json_integer(s.layers)));
    /* The model is made by a child, so that its memory does not count. */
    const pid_t child = fork();
    if (child == 0) {
        write_model(directory, &s);
        snprintf(path, sizeof path, "%s/ids.npy", directory);
        write_ids(path, &s);
        _exit(0);
    }
    int state = 0;
    if (child < 0 || waitpid(child, &state, 0) != child || state != 0) {
        fprintf(stderr, "cannot make the model\n");
        return 1;
    }
    compress(directory, &s, report);
    snprintf(path, sizeof path, "%s-narrow", directory);
    remove_tree(path);
    remove_tree(directory);
    bench_print(report);
    return 0;
}

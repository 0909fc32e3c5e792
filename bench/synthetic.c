#include "synthetic.h"

#include "bench.h"

#include "base/random.h"
#include "format/weights/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static tensor_list list_tensors(const synthetic_shape *s)
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
static void write_tensor(tensor_writer *writer, const tensor_view *view, uint64_t seed)
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
    bench_check(tensor_writer_put(writer, view->name, values, (size_t)count * sizeof values[0]));
    memory_free(values);
    memory_free(row);
}

static void write_model(const char *directory, const synthetic_shape *s)
{
    char path[512];
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    tensor_list list = list_tensors(s);
    tensor_writer *writer = NULL;
    bench_check(safetensors_writer_open(path, list.count, list.views, LAYOUT_NEW, &writer));
    for (int64_t i = 0; i < list.count; i++) {
        write_tensor(writer, &list.views[i], (uint64_t)i);
    }
    bench_check(tensor_writer_seal(writer));
    tensor_writer_close(writer);
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
static void write_ids(const char *directory, const synthetic_shape *s)
{
    char path[512];
    snprintf(path, sizeof path, "%s/ids.npy", directory);
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

synthetic_shape synthetic_options(int count, char **arguments)
{
    return (synthetic_shape){
        .layers = bench_option(count, arguments, "layers", 2),
        .hidden = bench_option(count, arguments, "hidden", 4096),
        .ffn = bench_option(count, arguments, "ffn", 11008),
        .heads = bench_option(count, arguments, "heads", 32),
        .vocabulary = bench_option(count, arguments, "vocabulary", 32000),
        .samples = bench_option(count, arguments, "samples", 8),
        .context = bench_option(count, arguments, "context", 2048),
    };
}

void synthetic_make(char *directory, const synthetic_shape *s)
{
    if (mkdtemp(directory) == NULL) {
        fprintf(stderr, "cannot create a directory in /tmp\n");
        exit(1);
    }
    const pid_t child = fork();
    if (child == 0) {
        write_model(directory, s);
        write_ids(directory, s);
        _exit(0);
    }
    int state = 0;
    if (child < 0 || waitpid(child, &state, 0) != child || state != 0) {
        fprintf(stderr, "cannot make the model\n");
        exit(1);
    }
}

void synthetic_remove(const char *path)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf -- '%s'", path);
    if (system(command) != 0) {
        fprintf(stderr, "cannot remove %s\n", path);
    }
}

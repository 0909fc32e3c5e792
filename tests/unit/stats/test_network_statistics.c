/* Files of statistics: what is refused when they are opened, read and added.
 * tests/unit/pipeline/test_gram.c has what runs take from them. */
#include "stats/network_statistics_write.h"

#include "base/file.h"
#include "support/support.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 3, ROWS = 8, BLOCKS = 1 };

static const char name[] = "blk.0.ffn_down.weight";

/* -- files ------------------------------------------------------------------------------------- */

static char *path_in(const char *directory, const char *file)
{
    char *path = NULL;
    assert_ok(path_join(&path, directory, file));
    return path;
}

static statistics_origin make_origin(int64_t context)
{
    statistics_origin o = {.context = context, .samples = 4, .calibrations = json_array()};
    memset(o.model, 'a', sizeof o.model - 1);
    assert_ok(memory_copy_string(&o.precision, "cpu f32"));
    assert_ok(memory_copy_string(&o.fit, ""));
    assert_ok(json_push(o.calibrations, json_pack("{s:s}", "file", "a text")));
    assert_ok(hash_set_init(&o.hashes));
    o.hashes.hashes[o.hashes.count++] = (uint64_t)context;
    return o;
}

static grail_statistics *random_statistics(uint64_t seed)
{
    float z[ROWS * WIDTH];
    grail_statistics *s = NULL;
    support_fill_normal(z, ROWS * WIDTH, seed);
    assert_ok(grail_statistics_create(WIDTH, 0, &s));
    assert_ok(grail_statistics_accumulate(s, ROWS, z, WIDTH, NULL, 0));
    return s;
}

/* A complete file, over two batches, the second of which is held out. */
static void write_file(const char *path, int64_t context, uint64_t seed)
{
    const double squares[WIDTH] = {1.0, 2.0, (double)seed};
    const double sums[WIDTH] = {-1.0, 0.5, 0.0};
    const double energy[BLOCKS + 2] = {1.0, (double)seed, 2.0};
    OWNED(grail_statistics) *fit = random_statistics(seed);
    OWNED(grail_statistics) *held = random_statistics(seed + 100);
    statistics_origin origin = make_origin(context);
    statistics_list list = {0};
    statistics_file f = {0};
    int64_t bytes = 0;
    assert_ok(statistics_list_vectors(&list, name, WIDTH));
    assert_ok(statistics_list_grams(&list, name, WIDTH));
    assert_ok(statistics_list_energy(&list, BLOCKS + 2));
    assert_ok(statistics_file_open(path, &origin, &list, &f));
    assert_ok(statistics_file_vectors(&f, name, WIDTH, squares, sums, (int64_t)2 * ROWS));
    assert_ok(statistics_file_grams(&f, name, fit, held));
    assert_ok(tensor_writer_put(f.writer, STATISTICS_ENERGY_NAME, energy, sizeof energy));
    assert_ok(statistics_file_commit(&f, &bytes));
    statistics_file_fini(&f);
    statistics_list_fini(&list);
    statistics_origin_fini(&origin);
}

/* Writes other bytes at the begin of a tensor's data. */
static void damage(const char *path, const char *tensor, const void *bytes, size_t size)
{
    tensor_file *file = NULL;
    assert_ok(gguf_open(path, &file));
    const tensor_view *t = tensor_file_find(file, tensor);
    assert_non_null(t);
    const long place = (long)((const unsigned char *)t->data - file->bytes);
    tensor_file_close(file);
    FILE *stream = fopen(path, "r+b");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, place, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
}

/* -- reading ----------------------------------------------------------------------------------- */

TEST(reading_gives_what_was_written)
{
    double squares[WIDTH];
    double sums[WIDTH];
    double count = 0.0;
    double energy[BLOCKS + 2];
    OWNED(grail_statistics) *expected = random_statistics(5);
    OWNED(char) *path = path_in(*state, "whole.gguf");
    write_file(path, 64, 5);
    OPENED(network_statistics, s, network_statistics_open(path, &s));
    assert_true(s->has_origin && network_statistics_has_grams(s));
    assert_int_equal(s->origin.context, 64);
    assert_int_equal(s->origin.hashes.count, 1);
    assert_ok(network_statistics_vectors(s, name, WIDTH, squares, sums, &count));
    assert_near(squares[2], 5.0, 0.0);
    assert_near(sums[0], -1.0, 0.0);
    assert_near(count, 2.0 * ROWS, 0.0);
    assert_ok(network_statistics_energy(s, BLOCKS + 2, energy));
    assert_near(energy[1], 5.0, 0.0);
    OPENED(grail_statistics, fit, grail_statistics_create(WIDTH, 0, &fit));
    OPENED(grail_statistics, held, grail_statistics_create(WIDTH, 0, &held));
    assert_ok(network_statistics_grams(s, name, fit, held));
    assert_int_equal(fit->count, ROWS);
    assert_int_equal(held->count, ROWS);
    for (int64_t i = 0; i < WIDTH; i++) {
        assert_near(grail_statistics_mean(fit, i), grail_statistics_mean(expected, i), 1e-15);
        for (int64_t j = 0; j <= i; j++) {
            assert_near(grail_statistics_gram(fit, i, j), grail_statistics_gram(expected, i, j),
                        1e-13);
        }
    }
}

static grail_status read_vectors(const network_statistics *s, const char *of, int64_t width)
{
    double squares[2 * WIDTH];
    double sums[2 * WIDTH];
    double count = 0.0;
    return network_statistics_vectors(s, of, width, squares, sums, &count);
}

static grail_status read_grams(const network_statistics *s)
{
    OPENED(grail_statistics, fit, grail_statistics_create(WIDTH, 0, &fit));
    OPENED(grail_statistics, held, grail_statistics_create(WIDTH, 0, &held));
    return network_statistics_grams(s, name, fit, held);
}

TEST(what_is_no_sum_is_refused)
{
    const float nan_single = (float)NAN;
    const float negative = -1.0F;
    const double infinite = (double)INFINITY;
    const int64_t minus = -1;
    double energy[BLOCKS + 3];
    network_statistics *s = NULL;
    char *path = path_in(*state, "damaged.gguf");
    write_file(path, 64, 1);
    damage(path, "blk.0.ffn_down.weight.in_sum2", &negative, sizeof negative);
    damage(path, "blk.0.ffn_down.weight.in_gram", &infinite, sizeof infinite);
    damage(path, STATISTICS_ENERGY_NAME, &infinite, sizeof infinite);
    assert_ok(network_statistics_open(path, &s));
    assert_fails(read_vectors(s, name, WIDTH), GRAIL_ERROR_NUMERIC,
                 "damaged.gguf: tensor 'blk.0.ffn_down.weight.in_sum2' holds -1 at 0");
    assert_fails(read_grams(s), GRAIL_ERROR_NUMERIC, "weight.in_gram' holds");
    assert_fails(network_statistics_energy(s, BLOCKS + 2, energy), GRAIL_ERROR_NUMERIC,
                 "'grail.energy' holds inf at 0");
    assert_fails(network_statistics_energy(s, BLOCKS + 3, energy), GRAIL_ERROR_FORMAT,
                 "a number of F64 for each block");
    assert_fails(read_vectors(s, "output.weight", WIDTH), GRAIL_ERROR_ARGUMENT,
                 "has no sums of squares of what 'output.weight' reads");
    assert_fails(read_vectors(s, name, WIDTH + 1), GRAIL_ERROR_ARGUMENT,
                 "is of 3 features, but the run needs those of 4");
    network_statistics_close(s);
    memory_free(path);
    path = path_in(*state, "more.gguf");
    write_file(path, 64, 1);
    damage(path, "blk.0.ffn_down.weight.in_sum", &nan_single, sizeof nan_single);
    damage(path, "blk.0.ffn_down.weight.gram_count", &minus, sizeof minus);
    assert_ok(network_statistics_open(path, &s));
    assert_int_equal(read_vectors(s, name, WIDTH), GRAIL_ERROR_NUMERIC);
    assert_fails(read_grams(s), GRAIL_ERROR_NUMERIC, "weight.gram_count' holds -1");
    network_statistics_close(s);
    memory_free(path);
}

TEST(a_truncated_file_is_refused_at_every_length)
{
    OWNED(buffer) bytes = {0};
    network_statistics *s = NULL;
    OWNED(char) *path = path_in(*state, "cut.gguf");
    write_file(path, 64, 1);
    assert_ok(file_read(path, 1 << 20, &bytes));
    const size_t padding = 32 - (BLOCKS + 2) * sizeof(double); /* behind the last tensor */
    for (size_t size = 0; size < bytes.size - padding; size++) {
        unsigned char *part = NULL; /* of its own, so that a read beyond it shows */
        assert_ok(memory_new(&part, size + 1, 1));
        memcpy(part, bytes.bytes, size);
        assert_int_equal(network_statistics_open_bytes("cut", part, size, &s), GRAIL_ERROR_FORMAT);
        memory_free(part);
    }
}

/* -- what a file must have --------------------------------------------------------------------- */

enum { MOST_CLAIMED = 7 };

/* The tensors of a file, whose data is zeros, and its keys. */
typedef struct claims {
    const char *type; /* NULL: no such key */
    tensor_view tensors[MOST_CLAIMED];
    void (*put_keys)(gguf_pairs *pairs);
} claims;

static grail_status open_claimed(const char *directory, const claims *c)
{
    static const char zeros[4096];
    gguf_pairs pairs = {0};
    tensor_writer *writer = NULL;
    network_statistics *s = NULL;
    int64_t count = 0;
    OWNED(char) *path = path_in(directory, "claimed.gguf");
    gguf_pairs_init(&pairs);
    if (c->type != NULL) {
        assert_ok(gguf_put_text(&pairs, "general.type", c->type));
    }
    if (c->put_keys != NULL) {
        c->put_keys(&pairs);
    }
    while (count < MOST_CLAIMED && c->tensors[count].name != NULL) {
        count++;
    }
    assert_ok(gguf_writer_open(path, &pairs, count, c->tensors, LAYOUT_NEW, &writer));
    for (int64_t i = 0; i < count; i++) {
        assert_ok(tensor_writer_put(writer, c->tensors[i].name, zeros, writer->items[i].bytes));
    }
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    const grail_status status = network_statistics_open(path, &s);
    network_statistics_close(status == GRAIL_OK ? s : NULL);
    assert_int_equal(unlink(path), 0);
    gguf_pairs_fini(&pairs);
    return status;
}

#define VECTOR(of, type, count)                                                                    \
    {                                                                                              \
        .name = (of), .dtype = GRAIL_DTYPE_##type, .rank = 1, .shape = { count }                   \
    }
#define SQUARE(of, type, rows, columns)                                                            \
    {                                                                                              \
        .name = (of), .dtype = GRAIL_DTYPE_##type, .rank = 2, .shape = { rows, columns }           \
    }

TEST(tensors_that_do_not_fit_are_refused)
{
    static const struct {
        claims of;
        const char *message;
    } refused[] = {
        {{.type = NULL}, "its general.type is 'missing', expected 'imatrix'"},
        {{.type = "model"}, "its general.type is 'model'"},
        {{"imatrix", {VECTOR("x.in_sum2", F32, 3)}, NULL}, "'x.counts' is missing beside"},
        {{"imatrix", {VECTOR("x.in_sum2", F16, 3), VECTOR("x.counts", F32, 1)}, NULL},
         "'x.in_sum2' is F16 [3], expected rows of F32"},
        {{"imatrix", {VECTOR("x.in_sum2", F32, 3), VECTOR("x.counts", F32, 2)}, NULL},
         "'x.counts' is F32 [2], expected 1 numbers of F32"},
        {{"imatrix",
          {VECTOR("x.in_sum2", F32, 3), VECTOR("x.in_sum", F32, 2), VECTOR("x.counts", F32, 1)},
          NULL},
         "'x.in_sum' is F32 [2], expected 3 numbers of F32"},
        {{"imatrix", {SQUARE("x.in_gram", F64, 3, 2)}, NULL}, "expected a square matrix of F64"},
        {{"imatrix", {SQUARE("x.in_gram", F32, 3, 3)}, NULL}, "expected a square matrix of F64"},
        {{"imatrix", {SQUARE("x.in_gram", F64, 3, 3)}, NULL}, "'x.gram_sum' is missing"},
        {{"imatrix", {SQUARE("x.in_gram", F64, 3, 3), VECTOR("x.gram_sum", F64, 2)}, NULL},
         "expected 3 numbers of F64"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_fails(open_claimed(*state, &refused[i].of), GRAIL_ERROR_FORMAT, refused[i].message);
    }
    const claims other = {
        "imatrix", {VECTOR("x.in_sum2", F32, 3), VECTOR("x.counts", F32, 1)}, NULL};
    assert_ok(open_claimed(*state, &other));
}

static void put_sound(gguf_pairs *p, const char *left_out)
{
    static const struct {
        const char *key;
        int64_t number;
        const char *text;
    } keys[] = {
        {"imatrix.chunk_size", 64, NULL},
        {"imatrix.chunk_count", 2, NULL},
        {"grail.statistics.version", 1, NULL},
        {"grail.statistics.model", 0,
         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
        {"grail.statistics.precision", 0, "cpu f32"},
        {"grail.statistics.conv_fit", 0, ""},
        {"grail.statistics.calibrations", 0, "[]"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(keys[i].key, left_out) != 0) {
            assert_ok(keys[i].text == NULL
                          ? gguf_put_integer(p, keys[i].key, GGUF_U32, keys[i].number)
                          : gguf_put_text(p, keys[i].key, keys[i].text));
        }
    }
}

static void put_all(gguf_pairs *p)
{
    put_sound(p, "");
}

static void put_no_context(gguf_pairs *p)
{
    put_sound(p, "imatrix.chunk_size");
}

static void put_large_count(gguf_pairs *p)
{
    put_sound(p, "imatrix.chunk_count");
    assert_ok(gguf_put_integer(p, "imatrix.chunk_count", GGUF_U64, INT64_MAX));
}

static void put_version_2(gguf_pairs *p)
{
    put_sound(p, "grail.statistics.version");
    assert_ok(gguf_put_integer(p, "grail.statistics.version", GGUF_U32, 2));
}

static void put_short_hash(gguf_pairs *p)
{
    put_sound(p, "grail.statistics.model");
    assert_ok(gguf_put_text(p, "grail.statistics.model", "0123"));
}

static void put_object(gguf_pairs *p)
{
    put_sound(p, "grail.statistics.calibrations");
    assert_ok(gguf_put_text(p, "grail.statistics.calibrations", "{}"));
}

static void put_many_hashes(gguf_pairs *p)
{
    put_sound(p, "");
    assert_ok(gguf_put_array(p, "grail.statistics.hashes", GGUF_U64, HASH_SET_MOST + 1));
    for (int i = 0; i <= HASH_SET_MOST; i++) {
        assert_ok(gguf_append_integer(p, GGUF_U64, i));
    }
}

TEST(keys_that_do_not_fit_are_refused)
{
    static const struct {
        void (*put)(gguf_pairs *p);
        grail_status code;
        const char *message;
    } refused[] = {
        {put_no_context, GRAIL_ERROR_FORMAT, "key 'imatrix.chunk_size' is missing"},
        {put_large_count, GRAIL_ERROR_FORMAT, "expected 1 to 2147483647"},
        {put_version_2, GRAIL_ERROR_UNSUPPORTED, "is 2, and this grail reads 1"},
        {put_short_hash, GRAIL_ERROR_FORMAT, "has 4 characters, expected 64"},
        {put_object, GRAIL_ERROR_FORMAT, "holds no JSON array"},
        {put_many_hashes, GRAIL_ERROR_FORMAT, "is no array of at most 4096 u64"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const claims c = {.type = "imatrix", .put_keys = refused[i].put};
        assert_fails(open_claimed(*state, &c), refused[i].code, refused[i].message);
    }
    const claims sound = {.type = "imatrix", .put_keys = put_all};
    assert_ok(open_claimed(*state, &sound));
}

/* -- adding ------------------------------------------------------------------------------------ */

TEST(sums_are_added)
{
    double squares[WIDTH];
    double sums[WIDTH];
    double count = 0.0;
    network_statistics *s = NULL;
    grail_gram_facts facts = {0};
    char *paths[] = {path_in(*state, "a.gguf"), path_in(*state, "b.gguf"),
                     path_in(*state, "sum.gguf")};
    write_file(paths[0], 32, 3);
    write_file(paths[1], 32, 4);
    assert_ok(grail_gram_add(2, (const char *const *)paths, &(grail_gram_options){.path = paths[2]},
                             &facts));
    assert_int_equal(facts.samples, 8);
    assert_int_equal(facts.matrices, 1);
    assert_int_equal(facts.grams, 1);
    assert_ok(network_statistics_open(paths[2], &s));
    assert_ok(network_statistics_vectors(s, name, WIDTH, squares, sums, &count));
    assert_near(squares[2], 7.0, 0.0);
    assert_near(sums[0], -2.0, 0.0);
    assert_near(count, 4.0 * ROWS, 0.0);
    assert_int_equal(json_array_size(s->origin.calibrations), 2);
    assert_int_equal(s->origin.hashes.count, 1); /* the same one twice */
    network_statistics_close(s);
    for (int i = 0; i < 3; i++) {
        memory_free(paths[i]);
    }
}

TEST(damaged_sums_are_not_added)
{
    const double nan_value = (double)NAN;
    const int64_t most = INT64_MAX;
    char *paths[] = {path_in(*state, "c.gguf"), path_in(*state, "d.gguf"),
                     path_in(*state, "no-sum.gguf"), path_in(*state, "e.gguf")};
    const grail_gram_options to = {.path = paths[2]};
    write_file(paths[0], 32, 3);
    write_file(paths[1], 32, 4);
    damage(paths[1], "blk.0.ffn_down.weight.held_gram", &nan_value, sizeof nan_value);
    assert_fails(grail_gram_add(2, (const char *const *)paths, &to, NULL), GRAIL_ERROR_NUMERIC,
                 "d.gguf: tensor 'blk.0.ffn_down.weight.held_gram' holds no finite sum at 0");
    write_file(paths[3], 32, 5);
    damage(paths[3], "blk.0.ffn_down.weight.held_count", &most, sizeof most);
    const char *const overflowing[] = {paths[0], paths[3]};
    assert_fails(grail_gram_add(2, overflowing, &to, NULL), GRAIL_ERROR_NUMERIC, "no finite sum");
    assert_int_equal(access(paths[2], F_OK), -1);
    assert_int_equal(grail_gram_add(0, overflowing, &to, NULL), GRAIL_ERROR_ARGUMENT);
    assert_int_equal(grail_gram_add(2, NULL, &to, NULL), GRAIL_ERROR_ARGUMENT);
    assert_int_equal(grail_gram_add(2, overflowing, &(grail_gram_options){0}, NULL),
                     GRAIL_ERROR_ARGUMENT);
    for (int i = 0; i < 4; i++) {
        memory_free(paths[i]);
    }
}

static grail_status add_and_read(void *context)
{
    char *const *paths = context;
    OWNED(network_statistics) *s = NULL;
    OWNED(grail_statistics) *fit = NULL;
    OWNED(grail_statistics) *held = NULL;
    (void)unlink(paths[2]);
    CHECK(grail_gram_add(2, (const char *const *)paths, &(grail_gram_options){.path = paths[2]},
                         NULL));
    CHECK(network_statistics_open(paths[2], &s));
    CHECK(grail_statistics_create(WIDTH, 0, &fit));
    CHECK(grail_statistics_create(WIDTH, 0, &held));
    return network_statistics_grams(s, name, fit, held);
}

TEST(every_failing_allocation_is_survived)
{
    char *paths[] = {path_in(*state, "f.gguf"), path_in(*state, "g.gguf"),
                     path_in(*state, "f+g.gguf")};
    write_file(paths[0], 32, 3);
    write_file(paths[1], 32, 4);
    support_fail_each_allocation(add_and_read, paths);
    for (int i = 0; i < 3; i++) {
        memory_free(paths[i]);
    }
}

CMFixtureFunction support_setup = support_open_directory,
                  support_teardown = support_close_directory;

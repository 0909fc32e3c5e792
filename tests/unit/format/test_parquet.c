/* Text columns of Parquet files that pyarrow wrote (tests/golden/make_parquet_golden.py), and what
 * is refused. */
#include "format/text/parquet.h"

#include "base/file.h"
#include "format/text/corpus.h"
#include "format/text/parquet_codec.h"
#include "format/text/parquet_runs.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 40 };

static void read_golden(const char *name, buffer *out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/fuzz/corpus/parquet/%s", GRAIL_SOURCE_DIR, name);
    assert_ok(file_read(path, 1 << 20, out));
}

/* Row i as the script made it; false where it is missing. */
static bool row(int i, char text[64])
{
    snprintf(text, 64, "text %d%.*s", i % 5, 2 * (i % 9), "abababababababababab");
    return i % 7 != 3;
}

static void assert_rows(const char *name, bool required)
{
    buffer file = {0};
    parquet *p = NULL;
    const char *text = NULL;
    size_t size = 0;
    bool found = true;
    read_golden(name, &file);
    assert_ok(parquet_open(file.bytes, file.size, "text", &p));
    for (int i = 0; i < ROWS; i++) {
        char expected[64];
        const bool exists = row(i, expected);
        if (exists || required) {
            assert_ok(parquet_next(p, &text, &size, &found));
            assert_true(found);
            assert_int_equal(size, exists ? strlen(expected) : 0);
            assert_memory_equal(text, expected, size);
        }
    }
    assert_ok(parquet_next(p, &text, &size, &found));
    assert_false(found);
    assert_ok(parquet_next(p, &text, &size, &found));
    assert_false(found);
    parquet_close(p);
    buffer_fini(&file);
}

static void pages_of_every_kind_are_read(void **state)
{
    (void)state;
    static const char *const pages[] = {"plain", "dictionary"};
    static const char *const codecs[] = {"none", "snappy", "gzip", "zstd"};
    for (int i = 0; i < 16; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s-%s-%d", pages[i % 2], codecs[i / 2 % 4], 1 + i / 8);
        assert_rows(name, false);
    }
    assert_rows("required", true);
}

/* Reads all; a file that opens is read to its end. */
static grail_status read_all(const unsigned char *bytes, size_t size)
{
    parquet *p = NULL;
    const char *text = NULL;
    size_t length = 0;
    bool found = true;
    grail_status status = parquet_open(bytes, size, "text", &p);
    while (status == GRAIL_OK && found) {
        status = parquet_next(p, &text, &length, &found);
    }
    parquet_close(p);
    return status;
}

static void others_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        grail_status code;
        const char *message;
    } refused[] = {
        {"bad-list", GRAIL_ERROR_UNSUPPORTED, "column \"text\" is nested or a list"},
        {"bad-struct", GRAIL_ERROR_UNSUPPORTED, "column \"text\" is nested or a list"},
        {"bad-numbers", GRAIL_ERROR_FORMAT,
         "has no text column \"text\"; choose one of its text columns: \"other\""},
        {"bad-brotli", GRAIL_ERROR_UNSUPPORTED, "is compressed by brotli"},
        {"bad-delta", GRAIL_ERROR_UNSUPPORTED, "has a page in encoding 7"},
        {"bad-cut", GRAIL_ERROR_FORMAT, "is no Parquet file, or truncated"},
        {"bad-encrypted", GRAIL_ERROR_UNSUPPORTED, "is encrypted"},
        {"bad-length", GRAIL_ERROR_FORMAT, "states a description of 2147483647 bytes"},
        {"bad-value", GRAIL_ERROR_FORMAT, "a page is damaged"},
        {"bad-levels", GRAIL_ERROR_FORMAT, "the head of a page is damaged"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        buffer file = {0};
        read_golden(refused[i].name, &file);
        assert_fails(read_all(file.bytes, file.size), refused[i].code, refused[i].message);
        buffer_fini(&file);
    }
}

/* Every byte changed in three ways: whatever comes of it, nothing is read beyond. */
static void any_changed_byte_is_survived(void **state)
{
    (void)state;
    static const char *const names[] = {"dictionary-gzip-1", "dictionary-snappy-2", "plain-zstd-1",
                                        "plain-none-1"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        buffer file = {0};
        int refused = 0;
        read_golden(names[n], &file);
        for (size_t i = 0; i < file.size; i++) {
            static const unsigned char changes[] = {0x01, 0x80, 0xFF};
            for (size_t k = 0; k < sizeof changes; k++) {
                file.bytes[i] ^= changes[k];
                refused += read_all(file.bytes, file.size) != GRAIL_OK ? 1 : 0;
                file.bytes[i] ^= changes[k];
            }
        }
        assert_true(refused > (int)file.size / 4);
        buffer_fini(&file);
    }
}

static void a_truncated_file_is_refused_at_every_length(void **state)
{
    (void)state;
    buffer file = {0};
    read_golden("dictionary-snappy-1", &file);
    for (size_t size = 0; size < file.size; size++) {
        unsigned char *part = NULL; /* of its own, so that a read beyond it shows */
        assert_ok(memory_new(&part, size + 1, 1));
        memcpy(part, file.bytes, size);
        assert_int_not_equal(read_all(part, size), GRAIL_OK);
        memory_free(part);
    }
    buffer_fini(&file);
}

static void a_text_file_holds_its_documents(void **state)
{
    (void)state;
    buffer file = {0};
    corpus *c = NULL;
    corpus_piece piece = {0};
    bool found = true;
    char hash[65];
    int documents = 0;
    read_golden("plain-snappy-1", &file);
    assert_ok(corpus_open_bytes("a.parquet", NULL, file.bytes, file.size, &c));
    while (found) {
        assert_ok(corpus_next(c, &piece, &found));
        documents += found && piece.ends_document ? 1 : 0;
    }
    assert_int_equal(documents, ROWS - 6);
    assert_ok(corpus_finish(c, hash));
    corpus_close(c);
    buffer_fini(&file);
    read_golden("all-missing", &file);
    assert_ok(corpus_open_bytes("a.parquet", NULL, file.bytes, file.size, &c));
    assert_fails(corpus_finish(c, hash), GRAIL_ERROR_FORMAT, "a.parquet: holds no text");
    corpus_close(c);
    buffer_fini(&file);
    read_golden("bad-numbers", &file);
    assert_fails(corpus_open_bytes("a.parquet", "nothing", file.bytes, file.size, &c),
                 GRAIL_ERROR_FORMAT, "a.parquet: has no text column \"nothing\"");
    assert_string_equal(grail_error_fields(), "field");
    buffer_fini(&file);
}

/* "wikiwikiwiki" by each method: as a whole, cut short, and to other sizes than it has. */
static void every_method_refuses_what_it_cannot_expand(void **state)
{
    (void)state;
    static const unsigned char snappy[] = {12, 3 << 2, 'w', 'i', 'k', 'i', (4 << 2) | 1, 4};
    static const unsigned char zstd[] = {0x28, 0xB5, 0x2F, 0xFD, 0x20, 12,  0x61,
                                         0x00, 0x00, 'w',  'i',  'k',  'i', 'w',
                                         'i',  'k',  'i',  'w',  'i',  'k', 'i'};
    static const unsigned char gzip[] = {0x78, 0x9C, 0x2B, 0xCF, 0xCC, 0xCE, 0x2C,
                                         0x87, 0x62, 0x00, 0x21, 0x7E, 0x05, 0x1D};
    static const struct {
        parquet_codec codec;
        const unsigned char *bytes;
        size_t size;
        const char *message;
    } packed[] = {
        {PARQUET_SNAPPY, snappy, sizeof snappy, "its snappy data are damaged"},
        {PARQUET_ZSTD, zstd, sizeof zstd, "its zstd data are damaged"},
        {PARQUET_GZIP, gzip, sizeof gzip, "its gzip data are damaged"},
    };
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
        unsigned char out[13];
        const parquet_codec codec = packed[i].codec;
        assert_ok(parquet_codec_expand(codec, packed[i].bytes, packed[i].size, out, 12));
        assert_memory_equal(out, "wikiwikiwiki", 12);
        for (size_t size = 0; size < packed[i].size; size++) {
            assert_fails(parquet_codec_expand(codec, packed[i].bytes, size, out, 12),
                         GRAIL_ERROR_FORMAT, packed[i].message);
        }
        assert_fails(parquet_codec_expand(codec, packed[i].bytes, packed[i].size, out, 11),
                     GRAIL_ERROR_FORMAT, packed[i].message);
        assert_fails(parquet_codec_expand(codec, packed[i].bytes, packed[i].size, out, 13),
                     GRAIL_ERROR_FORMAT, packed[i].message);
    }
}

/* The example of the specification: 0 to 7 in three bits, then five times 4. */
static void runs_are_equal_or_packed(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {0x03, 0x88, 0xC6, 0xFA, 10, 4};
    uint32_t value = 0;
    parquet_runs runs = parquet_runs_of(bytes, sizeof bytes, 3);
    for (uint32_t i = 0; i < 13; i++) {
        assert_true(parquet_runs_next(&runs, &value));
        assert_int_equal(value, i < 8 ? i : 4);
    }
    assert_false(parquet_runs_next(&runs, &value));
    runs = parquet_runs_of(bytes, 3, 3);
    assert_false(parquet_runs_next(&runs, &value));
}

static grail_status read_golden_file(void *context)
{
    const buffer *file = context;
    return read_all(file->bytes, file->size);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    buffer file = {0};
    read_golden("dictionary-snappy-2", &file);
    support_fail_each_allocation(read_golden_file, &file);
    buffer_fini(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_every_kind_are_read),
        cmocka_unit_test(others_are_refused_by_name),
        cmocka_unit_test(any_changed_byte_is_survived),
        cmocka_unit_test(a_truncated_file_is_refused_at_every_length),
        cmocka_unit_test(a_text_file_holds_its_documents),
        cmocka_unit_test(every_method_refuses_what_it_cannot_expand),
        cmocka_unit_test(runs_are_equal_or_packed),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

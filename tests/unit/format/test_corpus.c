/* Text and token files: kinds, fields, encodings, and messages that name the place. */
#include "support/support.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "format/text/corpus.h"
#include "support/json_memory.h"

#include <string.h>
#include <zlib.h>

static grail_status open_text(const char *name, const char *field, const char *text)
{
    corpus c = {0};
    const grail_status status = corpus_open_bytes(name, field, text, strlen(text), &c);
    assert_true((status == GRAIL_OK) == (c.path != NULL));
    corpus_close(&c);
    return status;
}

static void assert_document(const corpus *c, int64_t i, const char *expected)
{
    const size_t size = c->starts[i + 1] - c->starts[i];
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(c->text.bytes + c->starts[i], expected, size);
}

static void test_a_text_file_is_one_document(void **state)
{
    (void)state;
    static const char text[] = "one\n\ntw\u00f6\n";
    corpus c = {0};
    char hash[HASH_TEXT_SIZE];
    assert_ok(corpus_open_bytes("a.txt", NULL, text, sizeof text - 1, &c));
    assert_int_equal(c.documents, 1);
    assert_document(&c, 0, text);
    assert_null(c.ids);
    assert_string_equal(c.path, "a.txt");
    hash_bytes(text, sizeof text - 1, hash);
    assert_string_equal(c.hash, hash);
    corpus_close(&c);
    corpus_close(&c);
}

static void test_each_line_of_json_is_a_document(void **state)
{
    (void)state;
    static const char text[] = "{\"text\":\"one\\ntwo\",\"other\":1}\n"
                               "\n \t\r\n"
                               "{\"text\":\"\"}\r\n"
                               "{\"text\":\"\\u00e9\\ud83d\\ude00\"}";
    corpus c = {0};
    assert_ok(corpus_open_bytes("a.jsonl", NULL, text, sizeof text - 1, &c));
    assert_int_equal(c.documents, 3);
    assert_int_equal(c.starts[0], 0);
    assert_document(&c, 0, "one\ntwo");
    assert_document(&c, 1, "");
    assert_document(&c, 2, "\u00e9\U0001f600");
    corpus_close(&c);
}

static void test_another_field_can_be_named(void **state)
{
    (void)state;
    static const char text[] = "{\"content\":\"x\",\"text\":\"y\"}\n";
    corpus c = {0};
    assert_ok(corpus_open_bytes("a.jsonl", "content", text, sizeof text - 1, &c));
    assert_document(&c, 0, "x");
    corpus_close(&c);
}

static void test_a_line_that_does_not_fit_is_named(void **state)
{
    (void)state;
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\"x\"}\n\n{\"txt\":\"x\"}\n"),
                 GRAIL_ERROR_FORMAT, "a.jsonl: line 3: has no string field \"text\"");
    assert_fails(open_text("a.jsonl", "body", "{\"text\":\"x\"}"), GRAIL_ERROR_FORMAT,
                 "line 1: has no string field \"body\"");
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\"x\"}\n{\"text\":7}"), GRAIL_ERROR_FORMAT,
                 "line 2: document: \"text\" is not a string");
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\"x\"}\n{\"text\":"), GRAIL_ERROR_FORMAT,
                 "line 2: document: not valid JSON");
    assert_fails(open_text("a.jsonl", NULL, "[1]"), GRAIL_ERROR_FORMAT, "line 1: has no string");
}

static void test_text_that_is_not_utf8_is_refused_with_the_offset(void **state)
{
    (void)state;
    assert_fails(open_text("a.txt", NULL, "abc\xe9 def"), GRAIL_ERROR_FORMAT,
                 "a.txt: is not UTF-8 at byte 3 (0xe9)");
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\"x\"}\n{\"text\":\"\xff\"}"),
                 GRAIL_ERROR_FORMAT, "not UTF-8 at byte 22");
}

static void test_a_byte_order_mark_is_dropped(void **state)
{
    (void)state;
    corpus c = {0};
    assert_ok(corpus_open_bytes("a.txt", NULL, "\xef\xbb\xbfx", 4, &c));
    assert_document(&c, 0, "x");
    corpus_close(&c);
    assert_ok(open_text("a.jsonl", NULL, "\xef\xbb\xbf{\"text\":\"x\"}"));
    assert_fails(open_text("a.txt", NULL, "\xef\xbb\xbf"), GRAIL_ERROR_FORMAT, "holds no text");
}

static void test_files_without_text_are_refused(void **state)
{
    (void)state;
    assert_fails(corpus_open_bytes("a.txt", NULL, NULL, 0, &(corpus){0}), GRAIL_ERROR_FORMAT,
                 "a.txt: is empty");
    assert_fails(open_text("a.txt", NULL, " \n\t\r\v\f"), GRAIL_ERROR_FORMAT, "holds no text");
    assert_fails(open_text("a.jsonl", NULL, "\n\n"), GRAIL_ERROR_FORMAT, "holds no text");
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\" \"}\n{\"text\":\"\"}"),
                 GRAIL_ERROR_FORMAT, "holds no text");
}

static void test_the_ending_tells_the_kind(void **state)
{
    (void)state;
    assert_fails(open_text("a.json", NULL, "{}"), GRAIL_ERROR_UNSUPPORTED,
                 "expected .txt, .jsonl, .jsonl.gz or .npy");
    assert_fails(open_text("txt", NULL, "x"), GRAIL_ERROR_UNSUPPORTED, "ending");
    assert_fails(open_text("a.npy", NULL, "x"), GRAIL_ERROR_FORMAT, "a.npy: is not an .npy file");
}

static const char ids_file[] = "\x93NUMPY\x01\x00\x3e\x00"
                               "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }  \n"
                               "\x01\x02\x03\x04\x05\x06";

static void test_rows_of_ids_are_documents(void **state)
{
    (void)state;
    const int32_t expected[] = {1, 2, 3, 4, 5, 6};
    char hash[HASH_TEXT_SIZE];
    corpus c = {0};
    assert_ok(corpus_open_bytes("a.npy", NULL, ids_file, sizeof ids_file - 1, &c));
    assert_int_equal(c.documents, 2);
    assert_int_equal(c.id_count, 6);
    assert_int_equal(c.id_row, 3);
    assert_memory_equal(c.ids, expected, sizeof expected);
    hash_bytes(expected, sizeof expected, hash);
    assert_string_equal(c.hash, hash);
    corpus_close(&c);
}

typedef struct place {
    char *directory;
    char *path;
} place;

static place open_place(const char *name)
{
    place p = {.directory = support_temporary_directory()};
    assert_ok(path_join(&p.path, p.directory, name));
    return p;
}

static void close_place(place *p)
{
    support_remove_tree(p->directory);
    memory_free(p->directory);
    memory_free(p->path);
}

static void write_compressed(const char *path, const char *mode, const char *text)
{
    gzFile file = gzopen(path, mode);
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
}

static void test_compressed_lines_are_read_through_all_members(void **state)
{
    (void)state;
    place p = open_place("a.jsonl.gz");
    corpus c = {0};
    write_compressed(p.path, "wb", "{\"text\":\"one\"}\n");
    write_compressed(p.path, "ab", "{\"text\":\"two\"}\n");
    assert_ok(corpus_open(p.path, NULL, &c));
    assert_int_equal(c.documents, 2);
    assert_document(&c, 1, "two");
    corpus_close(&c);
    close_place(&p);
}

static void test_torn_compressed_files_are_refused(void **state)
{
    (void)state;
    place p = open_place("a.jsonl.gz");
    buffer whole = {0};
    corpus c = {0};
    write_compressed(p.path, "wb", "{\"text\":\"one\"}\n");
    assert_ok(file_read(p.path, 4096, &whole));
    support_write_file(p.directory, "a.jsonl.gz", whole.bytes, whole.size - 9);
    assert_fails(corpus_open(p.path, NULL, &c), GRAIL_ERROR_FORMAT, "a.jsonl.gz: ");
    whole.bytes[whole.size - 5] ^= 1; /* the checksum */
    support_write_file(p.directory, "a.jsonl.gz", whole.bytes, whole.size);
    assert_fails(corpus_open(p.path, NULL, &c), GRAIL_ERROR_FORMAT, "cannot decompress");
    assert_null(c.path);
    buffer_fini(&whole);
    close_place(&p);
}

static void test_files_are_read_by_path(void **state)
{
    (void)state;
    place p = open_place("a.txt");
    corpus c = {0};
    assert_fails(corpus_open(p.path, NULL, &c), GRAIL_ERROR_IO, "a.txt");
    support_write_file(p.directory, "a.txt", "", 0);
    assert_fails(corpus_open(p.path, NULL, &c), GRAIL_ERROR_FORMAT, "a.txt: is empty");
    support_write_file(p.directory, "a.txt", "text", 4);
    assert_ok(corpus_open(p.path, NULL, &c));
    assert_document(&c, 0, "text");
    corpus_close(&c);
    assert_fails(corpus_open("/nonexistent/a.jsonl.gz", NULL, &c), GRAIL_ERROR_IO,
                 "/nonexistent/a.jsonl.gz");
    close_place(&p);
}

static void test_real_text_is_read(void **state)
{
    (void)state;
    const char *path = support_shared_data("text/wikitext2-test.txt");
    if (path == NULL) {
        print_message("test_real_text_is_read needs text/wikitext2-test.txt\n");
        skip();
    }
    corpus c = {0};
    assert_ok(corpus_open(path, NULL, &c));
    assert_int_equal(c.text.size, 1256449);
    corpus_close(&c);
}

static void test_utf8_is_checked_byte_by_byte(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "a",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       "12345678\xc2\x80"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\x41",
                                      "\xe0\x9f\xbf",
                                      "\xe0\xa0",
                                      "\xe1\x80\x41",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xf0\x90\x80",
                                      "\xff",
                                      "\xf1\x80\x80\xc0"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(utf8_valid_prefix(good[i], strlen(good[i])), strlen(good[i]));
    }
    assert_int_equal(utf8_valid_prefix("\u00e9", 1), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(utf8_valid_prefix(bad[i], strlen(bad[i])), 0);
        char later[16] = "123456789";
        strcat(later, bad[i]);
        assert_int_equal(utf8_valid_prefix(later, strlen(later)), 9);
    }
}

typedef struct source {
    const char *name;
    const char *bytes;
    size_t size;
} source;

static grail_status open_source(void *context)
{
    const source *s = context;
    corpus c = {0};
    const grail_status status = corpus_open_bytes(s->name, NULL, s->bytes, s->size, &c);
    corpus_close(&c);
    return status;
}

static grail_status open_path(void *context)
{
    corpus c = {0};
    const grail_status status = corpus_open(context, NULL, &c);
    corpus_close(&c);
    return status;
}

static void test_every_failing_allocation_is_reported(void **state)
{
    (void)state;
    static const char lines[] = "{\"text\":\"a document of more than sixteen bytes\"}\n"
                                "{\"text\":\"b\"}\n{\"text\":\"c\"}\n{\"text\":\"d\"}\n";
    source sources[] = {{"a.jsonl", lines, sizeof lines - 1},
                        {"a.txt", "text", 4},
                        {"a.npy", ids_file, sizeof ids_file - 1}};
    for (size_t i = 0; i < 3; i++) {
        support_fail_each_allocation(open_source, &sources[i]);
    }
    place p = open_place("a.jsonl.gz");
    write_compressed(p.path, "wb", lines);
    support_fail_each_allocation(open_path, p.path);
    close_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_file_is_one_document),
        cmocka_unit_test(test_each_line_of_json_is_a_document),
        cmocka_unit_test(test_another_field_can_be_named),
        cmocka_unit_test(test_a_line_that_does_not_fit_is_named),
        cmocka_unit_test(test_text_that_is_not_utf8_is_refused_with_the_offset),
        cmocka_unit_test(test_a_byte_order_mark_is_dropped),
        cmocka_unit_test(test_files_without_text_are_refused),
        cmocka_unit_test(test_the_ending_tells_the_kind),
        cmocka_unit_test(test_rows_of_ids_are_documents),
        cmocka_unit_test(test_compressed_lines_are_read_through_all_members),
        cmocka_unit_test(test_torn_compressed_files_are_refused),
        cmocka_unit_test(test_files_are_read_by_path),
        cmocka_unit_test(test_real_text_is_read),
        cmocka_unit_test(test_utf8_is_checked_byte_by_byte),
        cmocka_unit_test(test_every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}

/* Text and token files: kinds, fields, encodings, and messages that name the place. */
#include "support/support.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "format/text/corpus.h"
#include "format/text/text_limits.h"
#include "support/json_memory.h"

#include <string.h>
#include <zlib.h>

/* What was read from a file. */
typedef struct contents {
    buffer text;
    size_t starts[8]; /* of documents, and the end of the last */
    int64_t documents;
    int32_t ids[8];
    int64_t id_count;
    char hash[HASH_TEXT_SIZE];
} contents;

static void add_piece(contents *out, const corpus_piece *piece)
{
    if (piece->ids != NULL) {
        assert_true(out->id_count + piece->count <= 8);
        memcpy(out->ids + out->id_count, piece->ids, (size_t)piece->count * sizeof piece->ids[0]);
        out->id_count += piece->count;
    } else {
        assert_int_equal(utf8_valid_prefix(piece->text, piece->size), piece->size);
        assert_ok(buffer_append(&out->text, piece->text, piece->size));
    }
    if (piece->ends_document && out->documents < 7) {
        out->documents++;
        out->starts[out->documents] = out->text.size;
    }
}

/* Closes it. */
static grail_status read_pieces(corpus *c, contents *out)
{
    grail_status status = GRAIL_OK;
    bool found = true;
    *out = (contents){.text = {.maximum = 1 << 26}};
    while (found) {
        corpus_piece piece = {0};
        TRY(corpus_next(c, &piece, &found));
        if (found) {
            add_piece(out, &piece);
        }
    }
    TRY(corpus_finish(c, out->hash));
out:
    corpus_close(c);
    return status;
}

static void contents_fini(contents *read)
{
    buffer_fini(&read->text);
}

OWNS(contents, contents_fini)

static grail_status read_bytes(const char *name, const char *field, const void *bytes, size_t size,
                               contents *out)
{
    corpus *c = NULL;
    *out = (contents){0};
    const grail_status status = corpus_open_bytes(name, field, bytes, size, &c);
    assert_true((status == GRAIL_OK) == (c != NULL));
    return status == GRAIL_OK ? read_pieces(c, out) : status;
}

static grail_status read_path(const char *path, contents *out)
{
    corpus *c = NULL;
    *out = (contents){0};
    const grail_status status = corpus_open(path, NULL, &c);
    return status == GRAIL_OK ? read_pieces(c, out) : status;
}

static grail_status open_text(const char *name, const char *field, const char *text)
{
    OWNED(contents) read;
    return read_bytes(name, field, text, strlen(text), &read);
}

static void assert_document(const contents *read, int64_t i, const char *expected)
{
    const size_t size = read->starts[i + 1] - read->starts[i];
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(read->text.bytes + read->starts[i], expected, size);
}

TEST(test_a_text_file_is_one_document)
{
    static const char text[] = "one\n\ntw\u00f6\n";
    contents read;
    char hash[HASH_TEXT_SIZE];
    assert_ok(read_bytes("a.txt", NULL, text, sizeof text - 1, &read));
    assert_int_equal(read.documents, 1);
    assert_int_equal(read.id_count, 0);
    assert_document(&read, 0, text);
    hash_bytes(text, sizeof text - 1, hash);
    assert_string_equal(read.hash, hash);
    contents_fini(&read);
    corpus_close(NULL);
}

TEST(test_each_line_of_json_is_a_document)
{
    static const char text[] = "{\"text\":\"one\\ntwo\",\"other\":1}\n"
                               "\n \t\r\n"
                               "{\"text\":\"\"}\r\n"
                               "{\"text\":\"\\u00e9\\ud83d\\ude00\"}";
    OWNED(contents) read;
    assert_ok(read_bytes("a.jsonl", NULL, text, sizeof text - 1, &read));
    assert_int_equal(read.documents, 3);
    assert_document(&read, 0, "one\ntwo");
    assert_document(&read, 1, "");
    assert_document(&read, 2, "\u00e9\U0001f600");
}

TEST(test_another_field_can_be_named)
{
    static const char text[] = "{\"content\":\"x\",\"text\":\"y\"}\n";
    OWNED(contents) read;
    assert_ok(read_bytes("a.jsonl", "content", text, sizeof text - 1, &read));
    assert_document(&read, 0, "x");
}

TEST(test_conversations_are_refused_by_their_field)
{
    static const char remedy[] = " is a conversation, which a chat template has to write, and the "
                                 "model has none that is read here; give the token ids that "
                                 "apply_chat_template";
    static const struct {
        const char *field, *lines, *expected;
    } known[] = {
        {NULL, "{\"text\":\"a\"}\n{\"messages\":[],\"text\":null}",
         "a.jsonl: line 2: \"messages\""},
        {NULL, "{\"conversations\":[{}]}", "a.jsonl: line 1: \"conversations\""},
        {NULL, "{\"text\":[{}]}", "a.jsonl: line 1: \"text\""},
        {"turns", "{\"turns\":[{}]}", "a.jsonl: line 1: \"turns\""},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_fails(open_text("a.jsonl", known[i].field, known[i].lines), GRAIL_ERROR_UNSUPPORTED,
                     known[i].expected);
        assert_non_null(strstr(grail_error_message(), remedy));
    }
    assert_ok(open_text("a.jsonl", NULL, "{\"text\":\"plain\",\"messages\":[]}"));
    assert_fails(open_text("a.jsonl", "body", "{\"messages\":[]}"), GRAIL_ERROR_FORMAT,
                 "has no string field \"body\"");
}

TEST(test_a_line_that_does_not_fit_is_named)
{
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\"x\"}\n\n{\"txt\":\"x\"}\n"),
                 GRAIL_ERROR_FORMAT, "a.jsonl: line 3: has no string field \"text\"");
    assert_fails(open_text("a.jsonl", "body", "{\"text\":\"x\"}"), GRAIL_ERROR_FORMAT,
                 "line 1: has no string field \"body\"");
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\"x\"}\n{\"text\":7}"), GRAIL_ERROR_FORMAT,
                 "line 2: document: \"text\" is not a string");
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\"x\"}\n{\"text\":"), GRAIL_ERROR_FORMAT,
                 "line 2: document: not valid JSON");
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\"x\"}\n{\"text\":null}"),
                 GRAIL_ERROR_FORMAT, "line 2: its field \"text\" is null, not a text");
    assert_fails(open_text("a.jsonl", NULL, "[1]"), GRAIL_ERROR_FORMAT, "line 1: has no string");
}

TEST(test_text_that_is_not_utf8_is_refused_with_the_offset)
{
    assert_fails(open_text("a.txt", NULL, "abc\xe9 def"), GRAIL_ERROR_FORMAT,
                 "a.txt: is not UTF-8 at byte 3 (0xe9)");
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\"x\"}\n{\"text\":\"\xff\"}"),
                 GRAIL_ERROR_FORMAT, "not UTF-8 at byte 22");
}

TEST(test_line_ends_are_read_as_python_reads_them)
{
    static const char text[] = "a\r\n\r\nb\rc\r\r\nd\v\f\x1c\xc2\x85\u2028\0e\n\r";
    static const char read_as[] = "a\n\nb\nc\n\nd\v\f\x1c\xc2\x85\u2028\0e\n\n";
    contents read;
    char hash[HASH_TEXT_SIZE];
    assert_ok(read_bytes("a.txt", NULL, text, sizeof text - 1, &read));
    assert_int_equal(read.documents, 1);
    assert_int_equal(read.text.size, sizeof read_as - 1);
    assert_memory_equal(read.text.bytes, read_as, sizeof read_as - 1);
    hash_bytes(read_as, sizeof read_as - 1, hash);
    assert_string_equal(read.hash, hash);
    contents_fini(&read);
    static const char lines[] = "{\"text\":\"one\"}\r{\"text\":\"two\"}\r\n\r\r\n{\"txt\":0}";
    assert_fails(open_text("a.jsonl", NULL, lines), GRAIL_ERROR_FORMAT, "line 5: has no string");
    assert_fails(open_text("a.txt", NULL, "a\xc3\r\nb"), GRAIL_ERROR_FORMAT,
                 "is not UTF-8 at byte 1 (0xc3)");
    assert_fails(open_text("a.txt", NULL, "a\r\nb\r\n\xff"), GRAIL_ERROR_FORMAT,
                 "is not UTF-8 at byte 6 (0xff)");
}

/* The second byte of CR LF is the first one of a piece. */
TEST(test_a_line_end_may_be_cut_by_a_piece)
{
    enum { PIECE = 1 << 20 };
    contents read;
    OWNED(buffer) text = {.maximum = 2 * PIECE};
    assert_ok(buffer_reserve(&text, PIECE + 2));
    memset(text.bytes, 'a', PIECE + 2);
    text.size = PIECE + 2;
    memcpy(text.bytes + PIECE - 1, "\r\nb", 3);
    assert_ok(read_bytes("a.txt", NULL, text.bytes, text.size, &read));
    assert_int_equal(read.text.size, PIECE + 1);
    assert_memory_equal(read.text.bytes + PIECE - 2, "a\nb", 3);
    contents_fini(&read);
    assert_ok(read_bytes("a.txt", NULL, text.bytes, PIECE + 1, &read));
    assert_int_equal(read.text.size, PIECE);
    assert_int_equal(read.documents, 1);
    contents_fini(&read);
    memset(text.bytes, ' ', PIECE + 2);
    memcpy(text.bytes + PIECE - 1, "\r\n1", 3);
    assert_fails(read_bytes("a.jsonl", NULL, text.bytes, text.size, &read), GRAIL_ERROR_FORMAT,
                 "line 2: document");
    contents_fini(&read);
}

static void refuse_encoding(const void *text, size_t size, const char *message)
{
    contents read;
    assert_fails(read_bytes("a.txt", NULL, text, size, &read), GRAIL_ERROR_FORMAT, message);
    contents_fini(&read);
    assert_fails(read_bytes("a.jsonl", NULL, text, size, &read), GRAIL_ERROR_FORMAT, message);
    contents_fini(&read);
}

TEST(test_utf16_and_utf32_are_refused)
{
    static const char marked[] = "begins with their byte order mark";
    static const char unmarked[] = "seems to be UTF-16 or UTF-32: ";
    static const char cyrillic[] = "\x1f\x04\x40\x04 \0\x38\x04\n"; /* one word, a space */
    refuse_encoding("\xff\xfe"
                    "a",
                    4, marked);
    refuse_encoding("\xfe\xff\0a", 4, marked);
    refuse_encoding("\xff\xfe\0\0a\0\0", 8, marked);
    refuse_encoding("\0\0\xfe\xff\0\0\0a", 8, unmarked);
    refuse_encoding("a\0b", 4, unmarked);
    refuse_encoding("\0a\0b", 4, unmarked);
    refuse_encoding("a\0\0", 4, unmarked);
    refuse_encoding(cyrillic, sizeof cyrillic, unmarked);
}

TEST(test_a_byte_order_mark_is_read_as_python_reads_it)
{
    contents read;
    assert_ok(read_bytes("a.txt", NULL, "\xef\xbb\xbfx", 4, &read));
    assert_document(&read, 0, "\ufeffx");
    contents_fini(&read);
    assert_ok(open_text("a.jsonl", NULL, "\xef\xbb\xbf{\"text\":\"x\"}"));
}

TEST(test_files_without_text_are_refused)
{
    assert_fails(open_text("a.txt", NULL, ""), GRAIL_ERROR_FORMAT, "a.txt: is empty");
    assert_fails(open_text("a.txt", NULL, " \n\t\r\v\f"), GRAIL_ERROR_FORMAT, "holds no text");
    assert_fails(open_text("a.jsonl", NULL, "\n\n"), GRAIL_ERROR_FORMAT, "holds no text");
    assert_fails(open_text("a.jsonl", NULL, "{\"text\":\" \"}\n{\"text\":\"\"}"),
                 GRAIL_ERROR_FORMAT, "holds no text");
}

TEST(test_the_ending_tells_the_kind)
{
    assert_fails(open_text("a.json", NULL, "{}"), GRAIL_ERROR_UNSUPPORTED,
                 "expected .txt, .jsonl, .jsonl.gz or .npy");
    assert_ok(open_text("A.TXT", NULL, "x"));
    assert_ok(open_text("a.JsonL", NULL, "{\"text\":\"x\"}"));
    assert_fails(open_text("A.NPY", NULL, "x"), GRAIL_ERROR_FORMAT, "is not an .npy file");
    assert_fails(open_text("A.PARQUET", NULL, "x"), GRAIL_ERROR_UNSUPPORTED,
                 "A.PARQUET: Parquet files are not read; write JSON lines");
    assert_fails(open_text("txt", NULL, "x"), GRAIL_ERROR_UNSUPPORTED, "ending");
    assert_fails(open_text("a.npy", NULL, "x"), GRAIL_ERROR_FORMAT, "a.npy: is not an .npy file");
}

static const char ids_file[] = "\x93NUMPY\x01\x00\x3e\x00"
                               "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }  \n"
                               "\x01\x02\x03\x04\x05\x06";

TEST(test_ids_are_read_with_their_rows)
{
    const int32_t expected[] = {1, 2, 3, 4, 5, 6};
    char hash[HASH_TEXT_SIZE];
    OWNED(contents) read;
    corpus *c = NULL;
    assert_ok(corpus_open_bytes("a.npy", NULL, ids_file, sizeof ids_file - 1, &c));
    assert_int_equal(corpus_ids(c), 6);
    assert_int_equal(corpus_row(c), 3);
    assert_ok(read_pieces(c, &read));
    assert_int_equal(read.id_count, 6);
    assert_memory_equal(read.ids, expected, sizeof expected);
    hash_bytes(expected, sizeof expected, hash);
    assert_string_equal(read.hash, hash);
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

OWNS(place, close_place)

static void write_compressed(const char *path, const char *mode, const char *text)
{
    gzFile file = gzopen(path, mode);
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
}

TEST(test_compressed_lines_are_read_through_all_members)
{
    OWNED(place) p = open_place("a.jsonl.gz");
    OWNED(contents) read;
    write_compressed(p.path, "wb", "{\"text\":\"one\"}\n");
    write_compressed(p.path, "ab", "{\"text\":\"two\"}\n");
    assert_ok(read_path(p.path, &read));
    assert_int_equal(read.documents, 2);
    assert_document(&read, 1, "two");
}

TEST(test_torn_compressed_files_are_refused)
{
    OWNED(place) p = open_place("a.jsonl.gz");
    OWNED(buffer) whole = {0};
    contents read;
    write_compressed(p.path, "wb", "{\"text\":\"one\"}\n");
    assert_ok(file_read(p.path, 4096, &whole));
    support_write_file(p.directory, "a.jsonl.gz", whole.bytes, whole.size - 9);
    assert_fails(read_path(p.path, &read), GRAIL_ERROR_FORMAT,
                 "a.jsonl.gz: the compressed data end early: truncated?");
    contents_fini(&read);
    whole.bytes[whole.size - 5] ^= 1; /* the checksum */
    support_write_file(p.directory, "a.jsonl.gz", whole.bytes, whole.size);
    assert_fails(read_path(p.path, &read), GRAIL_ERROR_FORMAT, "a.jsonl.gz: cannot decompress");
    contents_fini(&read);
}

TEST(test_files_are_read_by_path)
{
    OWNED(place) p = open_place("a.txt");
    contents read;
    assert_fails(read_path(p.path, &read), GRAIL_ERROR_IO, "a.txt");
    support_write_file(p.directory, "a.txt", "", 0);
    assert_fails(read_path(p.path, &read), GRAIL_ERROR_FORMAT, "a.txt: is empty");
    contents_fini(&read);
    support_write_file(p.directory, "a.txt", "text", 4);
    assert_ok(read_path(p.path, &read));
    assert_document(&read, 0, "text");
    contents_fini(&read);
    assert_fails(read_path("/nonexistent/a.jsonl.gz", &read), GRAIL_ERROR_IO,
                 "/nonexistent/a.jsonl.gz");
}

/* A text of `size` bytes: characters of two bytes, so that pieces of an even number of bytes end
 * within one behind an odd start. */
static buffer long_text(size_t size)
{
    buffer text = {.maximum = 1 << 24};
    assert_ok(buffer_append(&text, "a", 1));
    while (text.size < size) {
        assert_ok(buffer_append(&text, "\u00e9", 2));
    }
    return text;
}

enum { LONG = 3 << 20 };

TEST(test_characters_are_kept_whole_across_pieces)
{
    contents read;
    OWNED(buffer) text = long_text(LONG);
    char hash[HASH_TEXT_SIZE];
    assert_ok(read_bytes("a.txt", NULL, text.bytes, text.size, &read));
    assert_int_equal(read.text.size, text.size);
    assert_memory_equal(read.text.bytes, text.bytes, text.size);
    hash_bytes(text.bytes, text.size, hash);
    assert_string_equal(read.hash, hash);
    contents_fini(&read);
    text.bytes[1 << 20] = 'x'; /* the second byte of a character, behind the end of a piece */
    assert_fails(read_bytes("a.txt", NULL, text.bytes, text.size, &read), GRAIL_ERROR_FORMAT,
                 "a.txt: is not UTF-8 at byte 1048575 (0xc3)");
    contents_fini(&read);
    text.bytes[1 << 20] = 0xa9;
    assert_fails(read_bytes("a.txt", NULL, text.bytes, text.size - 1, &read), GRAIL_ERROR_FORMAT,
                 "is not UTF-8 at byte 3145727 (0xc3)");
    contents_fini(&read);
}

TEST(test_a_line_may_be_longer_than_a_piece)
{
    contents read;
    OWNED(buffer) text = long_text(LONG);
    OWNED(buffer) lines = {.maximum = 1 << 24};
    for (int i = 0; i < 2; i++) {
        assert_ok(buffer_append_string(&lines, "{\"text\":\""));
        assert_ok(buffer_append(&lines, text.bytes, text.size));
        assert_ok(buffer_append_string(&lines, "\"}\n{\"text\":\"b\"}\n"));
    }
    assert_ok(read_bytes("a.jsonl", NULL, lines.bytes, lines.size, &read));
    assert_int_equal(read.documents, 4);
    assert_int_equal(read.starts[1], text.size);
    assert_document(&read, 1, "b");
    assert_int_equal(read.starts[3] - read.starts[2], text.size);
    contents_fini(&read);
    lines.bytes[2 * LONG] = 0xff;
    assert_fails(read_bytes("a.jsonl", NULL, lines.bytes, lines.size, &read), GRAIL_ERROR_FORMAT,
                 "is not UTF-8 at byte 6291456 (0xff)");
    contents_fini(&read);
}

TEST(test_a_line_beyond_the_ceiling_is_refused)
{
    OWNED(contents) read;
    OWNED(buffer) line = {.maximum = 1 << 26};
    assert_ok(buffer_append_string(&line, "{\"text\":\"a\"}\n{\"text\":\""));
    assert_ok(buffer_reserve(&line, TEXT_LONGEST_LINE));
    memset(line.bytes + line.size, 'a', TEXT_LONGEST_LINE);
    line.size += TEXT_LONGEST_LINE;
    assert_fails(read_bytes("a.jsonl", NULL, line.bytes, line.size, &read), GRAIL_ERROR_FORMAT,
                 "a.jsonl: line 2: has more than the allowed 33554432 bytes");
}

/* 80 MiB of the same line, of which less than half is read. */
TEST(test_lines_that_inflate_without_end_are_refused)
{
    OWNED(place) p = open_place("a.jsonl.gz");
    OWNED(contents) read;
    const gzFile file = gzopen(p.path, "wb9");
    char line[1024];
    memset(line, 'a', sizeof line);
    memcpy(line, "{\"text\":\"", 9);
    memcpy(line + sizeof line - 3, "\"}\n", 3);
    for (int i = 0; i < 80 << 10; i++) {
        assert_int_equal(gzwrite(file, line, sizeof line), sizeof line);
    }
    assert_int_equal(gzclose(file), Z_OK);
    assert_fails(read_path(p.path, &read), GRAIL_ERROR_FORMAT,
                 "more than the allowed 200 times as many");
    assert_true(read.text.size < (40 << 20));
}

TEST(test_real_text_is_read)
{
    const char *path = support_shared_data("text/wikitext2-test.txt");
    if (path == NULL) {
        print_message("test_real_text_is_read needs text/wikitext2-test.txt\n");
        skip();
    }
    OWNED(contents) read;
    assert_ok(read_path(path, &read));
    assert_int_equal(read.text.size, 1256449);
}

TEST(test_utf8_is_checked_byte_by_byte)
{
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

static grail_status drain(corpus *c)
{
    char hash[HASH_TEXT_SIZE];
    const grail_status status = corpus_finish(c, hash);
    corpus_close(c);
    return status;
}

static grail_status open_source(void *context)
{
    const source *s = context;
    corpus *c = NULL;
    const grail_status status = corpus_open_bytes(s->name, NULL, s->bytes, s->size, &c);
    return status == GRAIL_OK ? drain(c) : status;
}

static grail_status open_path(void *context)
{
    corpus *c = NULL;
    const grail_status status = corpus_open(context, NULL, &c);
    return status == GRAIL_OK ? drain(c) : status;
}

TEST(test_every_failing_allocation_is_reported)
{
    static const char lines[] = "{\"text\":\"a document of more than sixteen bytes\"}\n"
                                "{\"text\":\"b\"}\n{\"text\":\"c\"}\n{\"text\":\"d\"}\n";
    source sources[] = {{"a.jsonl", lines, sizeof lines - 1},
                        {"a.txt", "text", 4},
                        {"a.npy", ids_file, sizeof ids_file - 1}};
    for (size_t i = 0; i < 3; i++) {
        support_fail_each_allocation(open_source, &sources[i]);
    }
    OWNED(place) p = open_place("a.jsonl.gz");
    write_compressed(p.path, "wb", lines);
    support_fail_each_allocation(open_path, p.path);
}

CMFixtureFunction support_setup = json_memory_use;

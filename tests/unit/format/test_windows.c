/* Windows: each protocol's joined text against one joined by hand, cutting, sampling, and overlap
 * of two texts. */
#include "windows_fixture.h"

#include "base/hash.h"
#include "base/options.h"
#include "support/json_memory.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

/* The windows as characters, "|" between them. */
static void assert_windows(const fixture *f, const char *expected)
{
    char text[512];
    size_t used = 0;
    for (int64_t i = 0; i < f->windows.count; i++) {
        if (i > 0) {
            text[used++] = '|';
        }
        for (int64_t k = window_start(&f->windows, i); k < window_start(&f->windows, i + 1); k++) {
            text[used++] = WINDOWS_CHARACTERS[f->windows.ids[k]];
            assert_true(used + 2 < sizeof text);
        }
    }
    text[used] = 0;
    assert_string_equal(text, expected);
}

static void read_lines(const char *name, const char *text, text_protocol protocol, int64_t length,
                       const char *expected)
{
    fixture f;
    windows_setup(&f, name, text);
    read_windows(&f, protocol, length);
    assert_windows(&f, expected);
    windows_teardown(&f);
}

TEST(plain_text_is_encoded_as_it_stands)
{
    read_lines("a.txt", "ab\n\n cd\n", TEXT_PLAIN, 9, "^ab\n\n cd\n");
    /* every document begins with BOS, and windows run across documents */
    read_lines("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cde\"}\n", TEXT_PLAIN, 7, "^ab^cde");
}

TEST(lines_are_stripped_and_blank_ones_skipped)
{
    read_lines("a.txt", " ab \n\n \t \ncd\r\nef", TEXT_LINES, 6, "abcdef");
}

/* "\n\n".join(rows); a row keeps its newline, a blank one is empty. */
TEST(wikitext_rows_are_joined_by_a_blank_line)
{
    read_lines("a.txt", " a\n \nb\n", TEXT_WIKITEXT2, 10, "^ a\n\n\n\n\nb\n");
    read_lines("a.txt", "\n\nb", TEXT_WIKITEXT2, 6, "^\n\n\n\nb");
}

/* " ".join(row.strip() for row in rows) */
TEST(ptb_rows_are_joined_by_a_space)
{
    read_lines("a.txt", " ab \n cd\nef", TEXT_PTB, 9, "^ab cd ef");
    read_lines("a.txt", "\nab\n\ncd\n", TEXT_PTB, 8, "^ ab  cd");
}

TEST(c4_documents_are_joined_by_a_space)
{
    read_lines("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"c\\n\"}\n{\"text\": \"d\"}\n", TEXT_C4,
               8, "^ab c\n d");
}

TEST(c4_stops_after_1100_documents_and_256_windows)
{
    static const char line[] = "{\"text\": \"ab\"}\n";
    enum { DOCUMENTS = 1200 };
    static char text[DOCUMENTS * (sizeof line - 1) + 1];
    for (size_t i = 0; i < DOCUMENTS; i++) {
        memcpy(text + i * (sizeof line - 1), line, sizeof line - 1);
    }
    fixture f;
    windows_setup(&f, "a.jsonl", text);
    read_windows(&f, TEXT_C4, 100);
    assert_int_equal(f.windows.stream_tokens, 1 + 1100 * 2 + 1099);
    assert_int_equal(f.windows.count, 33);
    read_windows(&f, TEXT_C4, 4);
    assert_int_equal(f.windows.count, 256);
    read_windows(&f, TEXT_PLAIN, 4);
    assert_int_equal(f.windows.count, 900);
    windows_teardown(&f);
}

TEST(the_incomplete_last_window_is_dropped)
{
    fixture f;
    char hash[HASH_TEXT_SIZE];
    windows_setup(&f, "a.txt", "abcdefab");
    read_windows(&f, TEXT_PLAIN, 4);
    assert_windows(&f, "^abc|defa");
    assert_int_equal(f.windows.stream_tokens, 9);
    hash_bytes("abcdefab", 8, hash);
    assert_string_equal(f.windows.text_hash, hash);
    read_windows(&f, TEXT_PLAIN, 0); /* default_length */
    assert_int_equal(f.windows.length, 4);
    windows_teardown(&f);
}

TEST(windows_may_begin_with_bos_each)
{
    fixture f;
    windows_setup(&f, "a.txt", "abcdef\n");
    f.options.window_bos = true;
    read_windows(&f, TEXT_LINES, 3);
    assert_windows(&f, "^ab|^cd|^ef");
    windows_teardown(&f);
}

/* -- documents --------------------------------------------------------------------------------- */

/* Windows are documents: "^" begins one and a newline ends it. */
static void setup_documents(fixture *f, const char *name, const char *text)
{
    windows_setup(f, name, text);
    assert_ok(token_list_push((token_list *)(uintptr_t)tokenizer_after(f->t), 8));
    f->options.documents = true;
}

TEST(a_document_is_a_line_of_text_or_what_a_line_of_json_holds)
{
    fixture f;
    setup_documents(&f, "a.txt", " ab\n\n \t \nc\r\ndef ab");
    read_windows(&f, TEXT_PLAIN, 9);
    assert_windows(&f, "^ab\n|^c\n|^def ab\n");
    assert_int_equal(f.windows.length, 9);
    assert_int_equal(windows_full(&f.windows), 0);
    assert_int_equal(f.windows.stream_tokens, 15);
    assert_int_equal(windows_mean_size(&f.windows), 5);
    windows_teardown(&f);
    setup_documents(
        &f, "a.jsonl",
        "{\"text\": \"a\\nb\\n\"}\n{\"text\": \"\"}\n{\"text\": \" \"}\n{\"text\": \"c\"}\n");
    read_windows(&f, TEXT_PLAIN, 9);
    assert_windows(&f, "^a\nb\n|^c\n"); /* those without text are left out */
    read_windows(&f, TEXT_LINES, 9);
    assert_windows(&f, "^a\n|^b\n|^c\n");
    windows_teardown(&f);
}

/* What the tokenizer puts around a text stays around a part of it. */
TEST(a_document_is_cut_to_the_context)
{
    fixture f;
    setup_documents(&f, "a.txt", "abc\nabcdef\nabcd\nz\n");
    read_windows(&f, TEXT_PLAIN, 5);
    assert_windows(&f, "^abc\n|^abc\n|^abc\n"); /* no token is made of z */
    assert_int_equal(windows_full(&f.windows), 3);
    f.options.length = 2;
    assert_fails(windows_read(&f.options, f.t, VOCABULARY, &f.windows), GRAIL_ERROR_ARGUMENT,
                 "a context of 2 tokens is too short; it must be at least 3");
    support_write_file(f.directory, "a.txt", "z\n", 2);
    f.options.length = 5;
    assert_fails(windows_read(&f.options, f.t, VOCABULARY, &f.windows), GRAIL_ERROR_ARGUMENT,
                 "a.txt: the tokenizer makes no token of any document; give text that it knows");
    windows_teardown(&f);
}

TEST(the_documents_of_a_folder_stay_apart)
{
    fixture f;
    setup_documents(&f, "b.txt", "cd\ne");
    support_write_file(f.directory, "a.jsonl", "{\"text\": \"ab\"}", 14);
    snprintf(f.path, sizeof f.path, "%s", f.directory);
    read_windows(&f, TEXT_PLAIN, 6);
    assert_windows(&f, "^ab\n|^cd\n|^e\n");
    windows_teardown(&f);
}

TEST(samples_of_documents_are_documents)
{
    fixture f;
    setup_documents(&f, "a.txt", "abcd\na\nef\nb\nabc\nd\n");
    read_windows(&f, TEXT_PLAIN, 6);
    assert_fails(windows_sample(&f.windows, 7, 1), GRAIL_ERROR_ARGUMENT,
                 "7 samples were requested, but the text holds only 6 documents; give more text or "
                 "fewer samples");
    assert_ok(windows_sample(&f.windows, 6, 1));
    assert_windows(&f, "^abcd\n|^a\n|^ef\n|^b\n|^abc\n|^d\n");
    assert_ok(windows_sample(&f.windows, 3, 2));
    int64_t last = -1;
    for (int64_t i = 0; i < 3; i++) { /* whole ones, in the order of the text */
        static const char *const all[] = {"^abcd\n", "^a\n", "^ef\n", "^b\n", "^abc\n", "^d\n"};
        char text[8] = "";
        for (int64_t k = 0; k < window_size(&f.windows, i); k++) {
            text[k] = WINDOWS_CHARACTERS[f.windows.ids[window_start(&f.windows, i) + k]];
        }
        int64_t place = last + 1;
        while (place < 6 && strcmp(all[place], text) != 0) {
            place++;
        }
        assert_true(place < 6);
        last = place;
    }
    windows_teardown(&f);
}

TEST(sorted_documents_of_one_size_are_in_order)
{
    fixture f;
    fixture g;
    setup_documents(&f, "a.txt", "abc\nb\nef\na\nab\n");
    setup_documents(&g, "a.txt", "b\na\nef\nab\nabc\n");
    read_windows(&f, TEXT_PLAIN, 6);
    read_windows(&g, TEXT_PLAIN, 6);
    assert_false(windows_equal(&f.windows, &g.windows));
    assert_ok(windows_sort(&f.windows));
    assert_windows(&f, "^b\n|^a\n|^ef\n|^ab\n|^abc\n");
    assert_true(windows_equal(&f.windows, &g.windows));
    assert_int_equal(windows_of_one_size(&f.windows, 0, 5), 2);
    assert_int_equal(windows_of_one_size(&f.windows, 2, 3), 1);
    assert_int_equal(windows_of_one_size(&f.windows, 4, 5), 1);
    g.windows.ids[1]++;
    assert_false(windows_equal(&f.windows, &g.windows));
    windows_teardown(&f);
    windows_teardown(&g);
}

TEST(protocols_are_known_by_name)
{
    static const char *const names[] = {"plain", "lines", "wikitext2", "ptb", "c4"};
    int protocol = TEXT_PLAIN;
    for (int i = 0; i < 5; i++) {
        assert_ok(option_find_word("protocol", names[i], text_protocol_names, &protocol));
        assert_int_equal(protocol, i);
    }
    assert_fails(option_find_word("protocol", "wikitext", text_protocol_names, &protocol),
                 GRAIL_ERROR_ARGUMENT,
                 "unknown protocol 'wikitext'; expected one of plain, lines, wikitext2, ptb, c4");
}

/* -- token ids --------------------------------------------------------------------------------- */

/* int32 [rows, 4] of 0, 1, 2 ... as .npy */
static void write_ids(fixture *f, int rows)
{
    enum { HEADER = 128, COLUMNS = 4 };
    unsigned char file[HEADER + 64 * COLUMNS * 4];
    memset(file, ' ', HEADER);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int length =
        snprintf((char *)file + 10, HEADER - 10,
                 "{'descr': '<i4', 'fortran_order': False, 'shape': (%d, %d)}", rows, COLUMNS);
    file[10 + length] = ' ';
    file[HEADER - 1] = '\n';
    for (int32_t i = 0; i < rows * COLUMNS; i++) {
        memcpy(file + HEADER + (size_t)i * sizeof i, &i, sizeof i);
    }
    support_write_file(f->directory, "ids.npy", file, HEADER + (size_t)rows * COLUMNS * 4);
    snprintf(f->path, sizeof f->path, "%s/ids.npy", f->directory);
}

TEST(ids_need_no_tokenizer_and_rows_are_windows)
{
    fixture f;
    windows_setup(&f, "a.txt", "a");
    write_ids(&f, 3);
    f.options.default_length = 100;
    assert_ok(windows_read(&f.options, NULL, 12, &f.windows));
    assert_int_equal(f.windows.count, 3);
    assert_int_equal(f.windows.length, 4);
    for (int32_t i = 0; i < 12; i++) {
        assert_int_equal(f.windows.ids[i], i);
    }
    token_windows_fini(&f.windows);
    f.options.length = 6;
    assert_ok(windows_read(&f.options, NULL, 12, &f.windows));
    assert_int_equal(f.windows.count, 2);
    assert_int_equal(f.windows.ids[6], 6);
    windows_teardown(&f);
}

TEST(ids_outside_the_vocabulary_are_refused)
{
    fixture f;
    windows_setup(&f, "a.txt", "abcf");
    write_ids(&f, 3);
    assert_fails(windows_read(&f.options, NULL, 11, &f.windows), GRAIL_ERROR_ARGUMENT,
                 "token 11 has id 11, outside the model's vocabulary of 11 (another model's");
    snprintf(f.path, sizeof f.path, "%s/a.txt", f.directory);
    assert_fails(windows_read(&f.options, f.t, 6, &f.windows), GRAIL_ERROR_ARGUMENT,
                 "token 4 has id 6, outside the model's vocabulary of 6");
    windows_teardown(&f);
}

TEST(what_cannot_be_cut_is_refused)
{
    fixture f;
    windows_setup(&f, "a.txt", "abc");
    f.options.length = 5;
    assert_fails(windows_read(&f.options, f.t, VOCABULARY, &f.windows), GRAIL_ERROR_ARGUMENT,
                 "the text holds 4 tokens, fewer than one window of 5; give more text or a smaller "
                 "context");
    assert_string_equal(grail_error_fields(), "path context");
    f.options.length = 1;
    assert_fails(windows_read(&f.options, f.t, VOCABULARY, &f.windows), GRAIL_ERROR_ARGUMENT,
                 "a context of 1 tokens is too short; it must be at least 2");
    f.options.length = 4;
    assert_fails(windows_read(&f.options, NULL, VOCABULARY, &f.windows), GRAIL_ERROR_ARGUMENT,
                 "reading text needs the model's tokenizer; give token ids in a .npy file instead");
    write_ids(&f, 3);
    f.options.window_bos = true;
    assert_fails(windows_read(&f.options, NULL, 12, &f.windows), GRAIL_ERROR_ARGUMENT,
                 "the windows cannot begin with a BOS token: this tokenizer has none");
    windows_teardown(&f);
}

/* -- samples ----------------------------------------------------------------------------------- */

/* 60 windows of two ids, each twice its number. */
static token_windows numbered(void)
{
    token_windows w = {.count = 60, .length = 2};
    assert_ok(memory_new(&w.ids, 120, sizeof w.ids[0]));
    for (int32_t i = 0; i < 120; i++) {
        w.ids[i] = i / 2;
    }
    return w;
}

TEST(samples_are_different_windows_in_order)
{
    OWNED(token_windows) w = numbered();
    assert_ok(windows_sample(&w, 20, 5));
    assert_int_equal(w.count, 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(w.ids[2 * i], w.ids[2 * i + 1]);
        assert_true(i == 0 || w.ids[2 * i] > w.ids[2 * i - 1]);
    }
    assert_true(w.ids[39] > 20); /* drawn from all of the text */
}

TEST(a_seed_decides_which)
{
    token_windows w[3] = {numbered(), numbered(), numbered()};
    assert_ok(windows_sample(&w[0], 20, 5));
    assert_ok(windows_sample(&w[1], 20, 5));
    assert_ok(windows_sample(&w[2], 20, 6));
    assert_memory_equal(w[0].ids, w[1].ids, 40 * sizeof w[0].ids[0]);
    assert_memory_not_equal(w[0].ids, w[2].ids, 40 * sizeof w[0].ids[0]);
    for (int i = 0; i < 3; i++) {
        token_windows_fini(&w[i]);
    }
}

TEST(all_windows_can_be_taken_and_no_more)
{
    OWNED(token_windows) w = numbered();
    assert_fails(windows_sample(&w, 61, 1), GRAIL_ERROR_ARGUMENT,
                 "61 samples were requested, but the text holds only 60 windows of 2 tokens; give "
                 "more text, fewer samples or a smaller context");
    assert_string_equal(grail_error_fields(), "path samples context");
    assert_fails(windows_sample(&w, 0, 1), GRAIL_ERROR_ARGUMENT, "0 samples");
    assert_fails(windows_sample(&w, -1, 1), GRAIL_ERROR_ARGUMENT, "-1 samples");
    assert_ok(windows_sample(&w, 60, 1));
    for (int32_t i = 0; i < 60; i++) {
        assert_int_equal(w.ids[2 * i], i);
    }
}

/* -- overlap ----------------------------------------------------------------------------------- */

enum { RUN = SHINGLE_TOKENS, LONG = 1 + 2 * RUN + 5 };

/* One window of LONG ids: first, then a rising sequence from `start`. */
static token_windows rising(int32_t first, int32_t start)
{
    token_windows w = {.count = 1, .length = LONG};
    assert_ok(memory_new(&w.ids, LONG, sizeof w.ids[0]));
    w.ids[0] = first;
    for (int32_t i = 1; i < LONG; i++) {
        w.ids[i] = start + i;
    }
    return w;
}

TEST(runs_are_found_wherever_they_stand)
{
    OWNED(token_windows) calibration = rising(0, 100);
    OWNED(token_windows) shifted = rising(0, 90); /* the first run now begins ten tokens later */
    OWNED(token_windows) other = rising(0, 1000);
    token_windows none = {.count = 1, .length = 3, .ids = other.ids};
    OWNED(hash_set) set = {0};
    assert_ok(shingles_of_windows(&calibration, &set));
    assert_int_equal(set.count, 2);
    assert_true(set.hashes[0] < set.hashes[1]);
    assert_int_equal(shingles_found(&set, &calibration), 2);
    assert_int_equal(shingles_found(&set, &shifted), 1);
    assert_int_equal(shingles_found(&set, &other), 0);
    assert_int_equal(shingles_found(&set, &none), 0);
    shifted.ids[RUN + 9]++; /* one token of the run is another */
    assert_int_equal(shingles_found(&set, &shifted), 0);
}

TEST(a_run_counts_once_however_often_it_occurs)
{
    OWNED(token_windows) repeating = {.count = 4, .length = LONG};
    assert_ok(memory_new(&repeating.ids, (size_t)4 * LONG, sizeof repeating.ids[0])); /* zeros */
    OWNED(hash_set) set = {0};
    assert_ok(shingles_of_windows(&repeating, &set));
    assert_int_equal(set.count, 1);
    assert_int_equal(shingles_found(&set, &repeating), 1);
}

TEST(long_texts_give_a_limited_number_of_runs)
{
    enum { WINDOWS = 3000 };
    OWNED(token_windows) w = {.count = WINDOWS, .length = LONG};
    hash_set set = {0};
    assert_ok(memory_new(&w.ids, (size_t)WINDOWS * LONG, sizeof w.ids[0]));
    for (int32_t i = 0; i < WINDOWS * LONG; i++) {
        w.ids[i] = i;
    }
    assert_ok(shingles_of_windows(&w, &set));
    assert_true(set.count > HASH_SET_MOST / 2 && set.count <= HASH_SET_MOST);
    assert_int_equal(shingles_found(&set, &w), set.count);
    hash_set_fini(&set);
    hash_set_fini(&set);
}

/* A short document between others changes nothing. */
TEST(runs_are_hashed_within_documents)
{
    OWNED(token_windows) one = rising(0, 100);
    OWNED(token_windows) three = {.count = 3, .length = LONG};
    OWNED(hash_set) set = {0};
    OWNED(hash_set) of_one = {0};
    assert_ok(memory_new(&three.ids, (size_t)2 * LONG + 3, sizeof three.ids[0]));
    assert_ok(memory_new(&three.starts, 4, sizeof three.starts[0]));
    memcpy(three.starts, (const int64_t[]){0, LONG, LONG + 3, 2 * LONG + 3}, 4 * sizeof(int64_t));
    memcpy(three.ids, one.ids, LONG * sizeof three.ids[0]);
    memcpy(three.ids + LONG + 3, one.ids, LONG * sizeof three.ids[0]);
    assert_ok(shingles_of_windows(&one, &of_one));
    assert_ok(shingles_of_windows(&three, &set));
    assert_int_equal(set.count, 2);
    assert_memory_equal(set.hashes, of_one.hashes, 2 * sizeof set.hashes[0]);
    assert_int_equal(shingles_found(&of_one, &three), 2);
    three.ids[RUN]++; /* of the first document */
    assert_int_equal(shingles_found(&of_one, &three), 2);
}

TEST(windows_shorter_than_a_run_give_none)
{
    OWNED(token_windows) w = numbered();
    OWNED(hash_set) set = {0};
    assert_ok(shingles_of_windows(&w, &set));
    assert_int_equal(set.count, 0);
    assert_int_equal(shingles_found(&set, &w), 0);
}

static grail_status read_once(void *context)
{
    fixture *f = context;
    OWNED(token_windows) w = {0};
    OWNED(hash_set) set = {0};
    CHECK(windows_read(&f->options, f->t, VOCABULARY, &w));
    CHECK(windows_sample(&w, 2, 1));
    CHECK(windows_sort(&w));
    return shingles_of_windows(&w, &set);
}

TEST(every_failing_allocation_is_survived)
{
    for (int protocol = TEXT_PLAIN; protocol <= TEXT_C4; protocol++) {
        fixture f;
        windows_setup(&f, "a.jsonl", "{\"text\": \"abcdef\"}\n{\"text\": \"fedcba\"}\n");
        f.options.protocol = (text_protocol)protocol;
        support_fail_each_allocation(read_once, &f);
        f.options.documents = protocol <= TEXT_LINES;
        support_fail_each_allocation(read_once, &f);
        windows_teardown(&f);
    }
}

/* Texts of a folder in the order of their names; other files and folders in it do not count. */
TEST(a_folder_is_its_texts_behind_each_other)
{
    fixture f;
    fixture alone;
    windows_setup(&f, "b.txt", "cd");
    support_write_file(f.directory, "a.jsonl", "{\"text\": \"ab\"}", 14);
    support_write_file(f.directory, "notes.md", "ef", 2);
    snprintf(f.path, sizeof f.path, "%s", f.directory);
    read_windows(&f, TEXT_PLAIN, 6);
    assert_windows(&f, "^ab^cd");
    assert_int_equal(f.windows.stream_tokens, 6);
    char both[65];
    snprintf(both, sizeof both, "%s", f.windows.text_hash);
    support_write_file(f.directory, "a.jsonl", "{\"text\": \"ba\"}", 14);
    read_windows(&f, TEXT_PLAIN, 6);
    assert_string_not_equal(both, f.windows.text_hash);
    f.options.length = 3;
    support_fail_each_allocation(read_once, &f);
    support_write_file(f.directory, "c.txt", "\xff", 1);
    f.options.path = f.path;
    token_windows w = {0};
    assert_fails(windows_read(&f.options, f.t, VOCABULARY, &w), GRAIL_ERROR_FORMAT,
                 "c.txt: is not UTF-8 at byte 0");
    support_write_file(f.directory, "c.parquet", "PAR1", 4);
    assert_fails(windows_read(&f.options, f.t, VOCABULARY, &w), GRAIL_ERROR_UNSUPPORTED,
                 "c.parquet: Parquet files are not read");
    windows_teardown(&f);
    windows_setup(&alone, "notes.md", "ab");
    snprintf(alone.path, sizeof alone.path, "%s", alone.directory);
    alone.options.path = alone.path;
    assert_fails(windows_read(&alone.options, alone.t, VOCABULARY, &w), GRAIL_ERROR_ARGUMENT,
                 "holds no text: no .txt, .jsonl or .jsonl.gz file");
    windows_teardown(&alone);
}

CMFixtureFunction support_setup = json_memory_use;

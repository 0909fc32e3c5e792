/* Zip archives: what is laid out is read back, and what lies is refused. */
#include "support/support.h"

#include "format/torch/zip.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

enum { LOCAL_HEADER = 0x04034b50, ENTRY = 0x02014b50, END = 0x06054b50 };

typedef struct archive {
    unsigned char *bytes;
    size_t size;
} archive;

static void put32(unsigned char *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t value = 0;
    memcpy(&value, at, sizeof value);
    return value;
}

/* The layout's pieces where they stand in a file that is otherwise zero; untouched pages of the
 * mapping cost nothing. */
static archive place_layout(const zip_layout *layout)
{
    const file_layout *file = &layout->file;
    unsigned char *image = mmap(NULL, file->file_size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(image != MAP_FAILED);
    for (int64_t i = 0; i <= file->piece_count; i++) {
        const layout_piece *piece = i < file->piece_count ? &file->pieces[i] : &file->seal;
        assert_true(piece->begin + piece->size <= file->file_size);
        memcpy(image + piece->begin, file->bytes.bytes + piece->at, piece->size);
    }
    return (archive){image, file->file_size};
}

static void close_archive(archive *a)
{
    munmap(a->bytes, a->size);
}

OWNS(archive, close_archive)

/* The i-th record with that signature. */
static unsigned char *record(const archive *a, uint32_t signature, int i)
{
    unsigned char *at = a->bytes;
    for (; i >= 0; i--) {
        const unsigned char *end = a->bytes + a->size;
        at = memmem(at + 1, (size_t)(end - at) - 1, &signature, sizeof signature);
        assert_non_null(at);
    }
    return at;
}

static unsigned char *local_header(const archive *a, int i)
{
    return i == 0 ? a->bytes : record(a, LOCAL_HEADER, i - 1);
}

static const char content[64] = "one thing and one thing and one thing and one thing and one ...";

/* "r/first" and "r/other", both of the same 64 bytes */
static archive make_archive(void)
{
    OWNED(zip_layout) layout;
    zip_layout_init(&layout);
    assert_ok(zip_layout_add(&layout, "r/first", content, sizeof content));
    assert_ok(zip_layout_add(&layout, "r/other", content, sizeof content));
    assert_ok(zip_layout_finish(&layout));
    archive a = place_layout(&layout);
    return a;
}

static grail_status open_only(const archive *a)
{
    zip_reader *zip = NULL;
    const grail_status status = zip_reader_open(a->bytes, a->size, &zip);
    assert_true((status == GRAIL_OK) == (zip != NULL));
    zip_reader_close(zip);
    return status;
}

static void test_members_are_read(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    zip_reader *zip = NULL;
    assert_ok(zip_reader_open(a.bytes, a.size, &zip));
    assert_int_equal(zip->count, 2);
    assert_string_equal(zip->members[1].name, "r/other");
    assert_null(zip_reader_find(zip, "r"));
    for (int64_t i = 0; i < 2; i++) {
        const zip_member *member = &zip->members[i];
        assert_ptr_equal(zip_reader_find(zip, member->name), member);
        assert_int_equal(member->size, sizeof content);
        assert_memory_equal(a.bytes + member->offset, content, sizeof content);
    }
    zip_reader_close(zip);
}

static void test_an_archive_without_members_is_read(void **state)
{
    (void)state;
    OWNED(zip_layout) layout;
    zip_layout_init(&layout);
    assert_ok(zip_layout_finish(&layout));
    OWNED(archive) a = place_layout(&layout);
    assert_ok(open_only(&a));
}

static void test_a_truncated_archive_is_refused(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    for (size_t size = 0; size < a.size; size++) {
        const archive cut = {a.bytes, size};
        assert_fails(open_only(&cut), GRAIL_ERROR_FORMAT,
                     "the zip directory at the end of the file is missing: truncated?");
    }
}

static void test_encrypted_members_are_refused(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    record(&a, ENTRY, 0)[8] |= 1;
    assert_fails(open_only(&a), GRAIL_ERROR_UNSUPPORTED, "member 'r/first': is encrypted");
}

static void test_compressed_members_are_told(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    zip_reader *zip = NULL;
    local_header(&a, 1)[8] = 8;
    record(&a, ENTRY, 1)[10] = 8;
    assert_ok(zip_reader_open(a.bytes, a.size, &zip));
    assert_false(zip->members[0].is_compressed);
    assert_true(zip->members[1].is_compressed);
    zip_reader_close(zip);
}

static void test_duplicate_names_are_refused(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    memcpy(local_header(&a, 1) + 30, "r/first", 7);
    memcpy(record(&a, ENTRY, 1) + 46, "r/first", 7);
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "member 'r/first' occurs twice");
}

static void test_a_name_with_a_nul_is_refused(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    record(&a, ENTRY, 0)[46 + 3] = 0;
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT,
                 "the name of a member is empty, contains a NUL, or has more than 4096 bytes");
}

/* A wrong byte at each of these offsets in the first local header is noticed. */
static void test_a_directory_that_contradicts_a_header_is_refused(void **state)
{
    (void)state;
    static const int offsets[] = {0, 8, 14, 18, 22, 26, 30};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        OWNED(archive) a = make_archive();
        local_header(&a, 0)[offsets[i]] ^= 1;
        assert_fails(open_only(&a), GRAIL_ERROR_FORMAT,
                     "member 'r/first': has a header that contradicts the zip directory");
    }
}

/* As torch writes: sizes and checksum stand in the directory alone. */
static void test_a_header_may_leave_out_the_sizes(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    local_header(&a, 0)[6] |= 1 << 3;
    memset(local_header(&a, 0) + 14, 0, 12);
    assert_ok(open_only(&a));
}

/* Header and directory agree on `size` bytes for the first member. */
static void lie_about_size(const archive *a, uint32_t stored, uint32_t size)
{
    put32(local_header(a, 0) + 18, stored);
    put32(local_header(a, 0) + 22, size);
    put32(record(a, ENTRY, 0) + 20, stored);
    put32(record(a, ENTRY, 0) + 24, size);
}

static void test_lying_sizes_of_stored_members_are_refused(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    lie_about_size(&a, 64, 65);
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT,
                 "is stored without compression, but claims to hold 65 bytes in 64");
    lie_about_size(&a, 1000, 1000);
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "has 1000 bytes from byte 64 on");
    lie_about_size(&a, 66, 66);
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "members 'r/first' and 'r/other' overlap");
}

static void test_two_members_on_the_same_bytes_are_refused(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    memcpy(record(&a, ENTRY, 1), record(&a, ENTRY, 0), 46); /* name and header stay the first's */
    memcpy(record(&a, ENTRY, 1) + 46, "r/other", 7);
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT,
                 "has a header that contradicts the zip directory");
    memcpy(record(&a, ENTRY, 1) + 46, "r/first", 7);
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "member 'r/first' occurs twice");
}

static void test_a_directory_that_is_elsewhere_is_refused(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    unsigned char *end = record(&a, END, 0);
    put32(end + 16, get32(end + 16) + 1);
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "on, but its end record begins at byte");
    put32(end + 16, 0xfffffff0);
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "on, but its end record begins at byte");
}

static void test_fields_that_end_behind_the_directory_are_refused(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    record(&a, ENTRY, 1)[32] = 1;
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT,
                 "an entry of the zip directory reaches past its end");
}

static void test_a_lying_count_of_members_is_refused(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    unsigned char *end = record(&a, END, 0);
    end[8] = end[10] = 3;
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "claims 3 members in");
    end[8] = end[10] = 1;
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT,
                 "the zip directory holds more than the 1 members that it claims");
    end[8] = end[10] = 2;
    record(&a, ENTRY, 1)[0] = 'p';
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "ends before its last member");
    end[8] = end[10] = 200;
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "claims 200 members");
}

static grail_status open_any(void *context)
{
    return open_only(context);
}

static void test_every_failing_allocation_is_reported(void **state)
{
    (void)state;
    OWNED(archive) a = make_archive();
    support_fail_each_allocation(open_any, &a);
}

static void check_layout(const zip_layout *layout)
{
    zip_reader *zip = NULL;
    OWNED(archive) a = place_layout(layout);
    assert_ok(zip_reader_open(a.bytes, a.size, &zip));
    assert_int_equal(zip->count, layout->count);
    for (int64_t i = 0; i < layout->count; i++) {
        const zip_place *place = &layout->members[i];
        const zip_member *member = &zip->members[i];
        assert_string_equal(member->name, place->name);
        assert_int_equal(member->size, place->size);
        assert_int_equal(member->offset, place->data);
        assert_int_equal(member->header, place->header);
        assert_int_equal(member->offset % 64, 0);
        assert_int_equal(get32(a.bytes + place->header_crc), place->crc);
        assert_int_equal(get32(a.bytes + place->directory_crc), place->crc);
    }
    zip_reader_close(zip);
}

static void test_a_layout_is_read_back(void **state)
{
    (void)state;
    OWNED(zip_layout) layout;
    zip_layout_init(&layout);
    assert_ok(zip_layout_add(&layout, "archive/data.pkl", content, sizeof content));
    assert_ok(zip_layout_add(&layout, "archive/empty", "", 0));
    assert_ok(zip_layout_add(&layout, "archive/data/0", NULL, 1000));
    assert_ok(zip_layout_finish(&layout));
    assert_int_equal(layout.members[0].crc, crc32_z(0, (const void *)content, sizeof content));
    check_layout(&layout);
}

/* A member of more than 4 GiB, and members that begin behind 4 GiB. */
static void test_a_layout_beyond_4_gib_is_read_back(void **state)
{
    (void)state;
    OWNED(zip_layout) layout;
    zip_layout_init(&layout);
    assert_ok(zip_layout_add(&layout, "archive/data/0", NULL, 5LL << 30));
    assert_ok(zip_layout_add(&layout, "archive/data/1", NULL, 3));
    assert_ok(zip_layout_add(&layout, "archive/data/2", NULL, 0xffffffff));
    assert_ok(zip_layout_finish(&layout));
    check_layout(&layout);
}

static void test_zip64_records_must_agree(void **state)
{
    (void)state;
    OWNED(zip_layout) layout;
    zip_layout_init(&layout);
    assert_ok(zip_layout_add(&layout, "archive/data/0", NULL, 5LL << 30));
    assert_ok(zip_layout_finish(&layout));
    OWNED(archive) a = place_layout(&layout);
    unsigned char *end = a.bytes + a.size - 22;
    end[10] = 2;
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT,
                 "the two end records of the zip directory contradict each other");
    end[10] = 1;
    end[-20 + 8] ^= 1;
    assert_fails(open_only(&a), GRAIL_ERROR_FORMAT, "the zip64 record of the directory is missing");
}

static void test_a_layout_of_more_members_than_16_bits_count_is_read_back(void **state)
{
    (void)state;
    OWNED(zip_layout) layout;
    zip_layout_init(&layout);
    for (int i = 0; i < 65535; i++) {
        char name[32];
        snprintf(name, sizeof name, "archive/data/%d", i);
        assert_ok(zip_layout_add(&layout, name, NULL, 4));
    }
    assert_ok(zip_layout_finish(&layout));
    check_layout(&layout);
}

static void test_a_layout_beyond_any_file_is_refused(void **state)
{
    (void)state;
    OWNED(zip_layout) layout;
    zip_layout_init(&layout);
    assert_fails(zip_layout_add(&layout, "archive/data/0", NULL, SIZE_MAX), GRAIL_ERROR_ARGUMENT,
                 "more bytes than a file can hold");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_are_read),
        cmocka_unit_test(test_an_archive_without_members_is_read),
        cmocka_unit_test(test_a_truncated_archive_is_refused),
        cmocka_unit_test(test_encrypted_members_are_refused),
        cmocka_unit_test(test_compressed_members_are_told),
        cmocka_unit_test(test_duplicate_names_are_refused),
        cmocka_unit_test(test_a_name_with_a_nul_is_refused),
        cmocka_unit_test(test_a_directory_that_contradicts_a_header_is_refused),
        cmocka_unit_test(test_lying_sizes_of_stored_members_are_refused),
        cmocka_unit_test(test_two_members_on_the_same_bytes_are_refused),
        cmocka_unit_test(test_a_header_may_leave_out_the_sizes),
        cmocka_unit_test(test_a_directory_that_is_elsewhere_is_refused),
        cmocka_unit_test(test_fields_that_end_behind_the_directory_are_refused),
        cmocka_unit_test(test_zip64_records_must_agree),
        cmocka_unit_test(test_a_lying_count_of_members_is_refused),
        cmocka_unit_test(test_every_failing_allocation_is_reported),
        cmocka_unit_test(test_a_layout_is_read_back),
        cmocka_unit_test(test_a_layout_beyond_4_gib_is_read_back),
        cmocka_unit_test(test_a_layout_of_more_members_than_16_bits_count_is_read_back),
        cmocka_unit_test(test_a_layout_beyond_any_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Source: PKWARE's APPNOTE.TXT, 4.3.7 (local header), 4.3.12 (directory), 4.3.14-16 (its
 * end), 4.5.3 (zip64); the padding field is that of torch, caffe2/serialize/inline_container.cc. */
#include "format/torch/zip.h"

#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    HEADER_SIGNATURE = 0x04034b50,
    ENTRY_SIGNATURE = 0x02014b50,
    END_SIGNATURE = 0x06054b50,
    END64_SIGNATURE = 0x06064b50,
    LOCATOR64_SIGNATURE = 0x07064b50,
    HEADER_SIZE = 30,
    ENTRY_SIZE = 46,
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR64_SIZE = 20,
    LONGEST_COMMENT = 0xffff,
    MOST_ENTRIES = 0xffff, /* of a plain end record; more are in the zip64 record */
    CRC_IN_HEADER = 14,
    CRC_IN_ENTRY = 16,
    CRC_SIZE = 4,
    FIELD_SIZE = 4, /* of the head of an extra field: id and length */
    ZIP64_FIELD = 0x0001,
    PADDING_FIELD = 0x4246,                /* "FB" */
    ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13, /* traditional, strong, and with a masked directory */
    SIZES_FOLLOW = 1 << 3,                 /* the local header leaves out the sizes */
    NAMES_ARE_UTF8 = 1 << 11,
    STORED = 0,
    PLAIN_VERSION = 20, /* of the format: 2.0 */
    ZIP64_VERSION = 45,
    EPOCH_DATE = 1 << 5 | 1, /* the first of January 1980 */
    ALIGNMENT = 64,
    LARGEST_LAYOUT = 1 << 30
};

/* Takes the place of every number that is not below it; the number is in a zip64 field instead. */
static const uint64_t in_zip64 = 0xffffffff;

/* -- reading ----------------------------------------------------------------------------------- */

/* Facts about the directory from an end record. */
typedef struct directory_facts {
    uint64_t entries;
    uint64_t size;
    uint64_t begin;
} directory_facts;

static bool contradicts(uint64_t narrow, uint64_t most, uint64_t wide)
{
    return narrow != most && narrow != wide;
}

/* Reads the zip64 end record, if there is one. It comes before its locator, which comes before the
 * end record at *end. *end becomes the place where the directory must end. */
static grail_status read_end64(const zip_reader *zip, directory_facts *facts, size_t *end)
{
    if (*end < LOCATOR64_SIZE ||
        load_little(zip->bytes + *end - LOCATOR64_SIZE, 4) != LOCATOR64_SIGNATURE) {
        return GRAIL_OK;
    }
    const size_t locator = *end - LOCATOR64_SIZE;
    const uint64_t at = load_little(zip->bytes + locator + 8, 8);
    if (locator < END64_SIZE || at > locator - END64_SIZE ||
        load_little(zip->bytes + at, 4) != END64_SIGNATURE) {
        return error_set(GRAIL_ERROR_FORMAT, "the zip64 record of the directory is missing");
    }
    const unsigned char *record = zip->bytes + at;
    const directory_facts wide = {load_little(record + 32, 8), load_little(record + 40, 8),
                                  load_little(record + 48, 8)};
    if (contradicts(facts->entries, MOST_ENTRIES, wide.entries) ||
        contradicts(facts->size, in_zip64, wide.size) ||
        contradicts(facts->begin, in_zip64, wide.begin)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the two end records of the zip directory contradict each other");
    }
    *facts = wide;
    *end = at;
    return GRAIL_OK;
}

/* Searches backwards for the signature of the end record, whose comment must end the file. */
static grail_status find_directory(zip_reader *zip, uint64_t *entries)
{
    const size_t most = END_SIZE + LONGEST_COMMENT;
    const size_t first = zip->size > most ? zip->size - most : 0;
    const unsigned char *record = NULL;
    size_t end = 0;
    for (size_t left = zip->size; left >= first + END_SIZE && record == NULL; left--) {
        end = left - END_SIZE;
        record = load_little(zip->bytes + end, 4) == END_SIGNATURE &&
                         load_little(zip->bytes + end + 20, 2) == zip->size - left
                     ? zip->bytes + end
                     : NULL;
    }
    if (record == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the zip directory at the end of the file is missing: truncated?");
    }
    directory_facts facts = {load_little(record + 10, 2), load_little(record + 12, 4),
                             load_little(record + 16, 4)};
    CHECK(read_end64(zip, &facts, &end));
    if (facts.begin > end || facts.size != end - facts.begin) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "the zip directory has %llu bytes from byte %llu on, but its end record begins at "
            "byte %zu",
            (unsigned long long)facts.size, (unsigned long long)facts.begin, end);
    }
    if (facts.entries > ZIP_MOST_MEMBERS || facts.entries > facts.size / ENTRY_SIZE) {
        return error_set(GRAIL_ERROR_FORMAT, "the zip directory claims %llu members in %llu bytes",
                         (unsigned long long)facts.entries, (unsigned long long)facts.size);
    }
    zip->directory = facts.begin;
    zip->directory_size = facts.size;
    *entries = facts.entries;
    return GRAIL_OK;
}

/* One entry of the directory, as stored. */
typedef struct zip_entry {
    uint64_t flags;
    uint64_t method;
    uint64_t crc;
    uint64_t stored_size;
    uint64_t size;
    uint64_t header;
    const unsigned char *name;
    size_t name_size;
} zip_entry;

/* Reads the numbers that do not fit 32 bits from the zip64 field, which has them in this order. */
static bool read_zip64(const unsigned char *extra, size_t size, zip_entry *entry)
{
    uint64_t *const numbers[] = {&entry->size, &entry->stored_size, &entry->header};
    while (size >= FIELD_SIZE) {
        const size_t length = load_little(extra + 2, 2);
        if (length > size - FIELD_SIZE) {
            return false;
        }
        size_t at = 0;
        for (size_t i = 0; load_little(extra, 2) == ZIP64_FIELD && i < 3; i++) {
            if (*numbers[i] == in_zip64 && at + 8 <= length) {
                *numbers[i] = load_little(extra + FIELD_SIZE + at, 8);
                at += 8;
            }
        }
        extra += FIELD_SIZE + length;
        size -= FIELD_SIZE + length;
    }
    return true;
}

/* Reads the entry at *at, whose name *out gets, and moves *at past it. */
static grail_status read_entry(const zip_reader *zip, size_t *at, zip_entry *entry, char **out)
{
    const unsigned char *record = zip->bytes + *at;
    const size_t left = zip->directory + zip->directory_size - *at;
    if (left < ENTRY_SIZE || load_little(record, 4) != ENTRY_SIGNATURE) {
        return error_set(GRAIL_ERROR_FORMAT, "the zip directory ends before its last member");
    }
    const size_t name = load_little(record + 28, 2);
    const size_t extra = load_little(record + 30, 2);
    const size_t comment = load_little(record + 32, 2);
    if (name + extra + comment > left - ENTRY_SIZE) {
        return error_set(GRAIL_ERROR_FORMAT, "an entry of the zip directory reaches past its end");
    }
    *entry = (zip_entry){
        .flags = load_little(record + 8, 2),
        .method = load_little(record + 10, 2),
        .crc = load_little(record + CRC_IN_ENTRY, CRC_SIZE),
        .stored_size = load_little(record + 20, 4),
        .size = load_little(record + 24, 4),
        .header = load_little(record + 42, 4),
        .name = record + ENTRY_SIZE,
        .name_size = name,
    };
    if (!read_zip64(record + ENTRY_SIZE + name, extra, entry)) {
        return error_set(GRAIL_ERROR_FORMAT, "a field in the zip directory reaches past its entry");
    }
    if (name == 0 || name > ZIP_LONGEST_NAME || memchr(entry->name, 0, name) != NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the name of a member is empty, contains a NUL, or has more than %d bytes",
                         ZIP_LONGEST_NAME);
    }
    *at += ENTRY_SIZE + name + extra + comment;
    return memory_format(out, "%.*s", (int)name, (const char *)entry->name);
}

/* Local headers of torch's own files leave out sizes and checksum; others may store the sizes in a
 * zip64 field. */
static bool agrees(const unsigned char *header, const zip_entry *entry)
{
    const uint64_t stored_size = load_little(header + 18, 4);
    const uint64_t size = load_little(header + 22, 4);
    if (load_little(header, 4) != HEADER_SIGNATURE || load_little(header + 8, 2) != entry->method ||
        load_little(header + 26, 2) != entry->name_size ||
        memcmp(header + HEADER_SIZE, entry->name, entry->name_size) != 0) {
        return false;
    }
    if ((load_little(header + 6, 2) & SIZES_FOLLOW) != 0) {
        return true;
    }
    return load_little(header + CRC_IN_HEADER, CRC_SIZE) == entry->crc &&
           (stored_size == in_zip64 || stored_size == entry->stored_size) &&
           (size == in_zip64 || size == entry->size);
}

/* Finds the bytes of a member, which follow its local header. The header must agree with the entry.
 */
static grail_status find_bytes(const zip_reader *zip, const zip_entry *entry, zip_member *member)
{
    const size_t end = zip->directory;
    const size_t least = HEADER_SIZE + entry->name_size;
    if ((entry->flags & ENCRYPTED) != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "is encrypted");
    }
    if (entry->method == STORED && entry->stored_size != entry->size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is stored without compression, but claims to hold %llu bytes in %llu",
                         (unsigned long long)entry->size, (unsigned long long)entry->stored_size);
    }
    if (entry->header > end || least > end - entry->header ||
        !agrees(zip->bytes + entry->header, entry)) {
        return error_set(GRAIL_ERROR_FORMAT, "has a header that contradicts the zip directory");
    }
    const size_t begin = entry->header + least + load_little(zip->bytes + entry->header + 28, 2);
    if (begin > end || entry->stored_size > end - begin) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "has %llu bytes from byte %zu on, but the zip directory begins at byte %zu",
            (unsigned long long)entry->stored_size, begin, end);
    }
    member->header = entry->header;
    member->offset = begin;
    member->size = entry->stored_size;
    member->is_compressed = entry->method != STORED;
    return GRAIL_OK;
}

static int compare_headers(const void *a, const void *b)
{
    const zip_member *const *left = a;
    const zip_member *const *right = b;
    return ((*left)->header > (*right)->header) - ((*left)->header < (*right)->header);
}

static grail_status check_overlap(const zip_reader *zip)
{
    grail_status status = GRAIL_OK;
    const zip_member **sorted = NULL;
    TRY(memory_new_unset(&sorted, (size_t)zip->count, sizeof sorted[0]));
    for (int64_t i = 0; i < zip->count; i++) {
        sorted[i] = &zip->members[i];
    }
    qsort(sorted, (size_t)zip->count, sizeof sorted[0], compare_headers);
    for (int64_t i = 0; i + 1 < zip->count; i++) {
        if (sorted[i]->offset + sorted[i]->size > sorted[i + 1]->header) {
            FAIL(GRAIL_ERROR_FORMAT, "members '%s' and '%s' overlap", sorted[i]->name,
                 sorted[i + 1]->name);
        }
    }
out:
    memory_free(sorted);
    return status;
}

grail_status zip_reader_open(const void *bytes, size_t size, zip_reader **out)
{
    grail_status status = GRAIL_OK;
    zip_reader *zip = NULL;
    TRY(memory_new(&zip, 1, sizeof *zip));
    *zip = (zip_reader){.bytes = bytes, .size = size};
    uint64_t entries = 0;
    TRY(find_directory(zip, &entries));
    TRY(memory_new(&zip->members, entries, sizeof zip->members[0]));
    zip->count = (int64_t)entries;
    size_t at = zip->directory;
    for (uint64_t i = 0; i < entries; i++) {
        zip_entry entry = {0};
        zip_member *member = &zip->members[i];
        TRY(read_entry(zip, &at, &entry, &member->name));
        TRY(error_in(find_bytes(zip, &entry, member), "member '%s'", member->name));
    }
    if (at != zip->directory + zip->directory_size) {
        FAIL(GRAIL_ERROR_FORMAT,
             "the zip directory holds more than the %llu members that it claims",
             (unsigned long long)entries);
    }
    TRY(name_index_init(&zip->index, zip->count, zip->members, sizeof zip->members[0]));
    const char *twice = name_index_twice(&zip->index);
    TRY(twice == NULL ? GRAIL_OK
                      : error_set(GRAIL_ERROR_FORMAT, "member '%s' occurs twice", twice));
    TRY(check_overlap(zip));
    *out = zip;
    zip = NULL;
out:
    zip_reader_close(zip);
    return status;
}

void zip_reader_close(zip_reader *zip)
{
    if (zip == NULL) {
        return;
    }
    for (int64_t i = 0; i < zip->count; i++) {
        memory_free(zip->members[i].name);
    }
    name_index_fini(&zip->index);
    memory_free(zip->members);
    memory_free(zip);
}

const zip_member *zip_reader_find(const zip_reader *zip, const char *name)
{
    const int64_t i = name_index_find(&zip->index, name);
    return i < 0 ? NULL : &zip->members[i];
}

/* -- laying out -------------------------------------------------------------------------------- */

void zip_layout_init(zip_layout *zip)
{
    *zip = (zip_layout){0};
    buffer_init(&zip->file.bytes, LARGEST_LAYOUT);
}

void zip_layout_fini(zip_layout *zip)
{
    for (int64_t i = 0; i < zip->count; i++) {
        memory_free(zip->members[i].name);
    }
    memory_free(zip->members);
    file_layout_fini(&zip->file);
    *zip = (zip_layout){0};
}

typedef struct number {
    uint64_t value;
    size_t width;
} number;

static grail_status append_numbers(buffer *out, size_t count, const number numbers[])
{
    for (size_t i = 0; i < count; i++) {
        unsigned char bytes[8];
        store_little(bytes, numbers[i].width, numbers[i].value);
        CHECK(buffer_append(out, bytes, numbers[i].width));
    }
    return GRAIL_OK;
}

#define APPEND(out, ...)                                                                           \
    append_numbers((out), sizeof((const number[]){__VA_ARGS__}) / sizeof(number),                  \
                   (const number[]){__VA_ARGS__})

static uint64_t cap(size_t value)
{
    return value < in_zip64 ? value : in_zip64;
}

/* Adds a piece: `size` bytes of the layout from `at` on are written at `begin` of the file. */
static grail_status add_piece(zip_layout *zip, size_t begin, size_t at, size_t size)
{
    CHECK(memory_reserve(&zip->file.pieces, (size_t)zip->file.piece_count + 1,
                         sizeof zip->file.pieces[0]));
    zip->file.pieces[zip->file.piece_count++] =
        (layout_piece){.begin = begin, .at = at, .size = size};
    return GRAIL_OK;
}

/* Adds what describes a member. If its content is written later, the checksum, which is `crc` bytes
 * after `begin`, is left out. */
static grail_status add_record(zip_layout *zip, const zip_place *member, size_t begin, size_t at,
                               size_t crc)
{
    const size_t size = zip->file.bytes.size - at;
    const size_t after = crc + CRC_SIZE;
    if (!member->later) {
        return add_piece(zip, begin, at, size);
    }
    CHECK(add_piece(zip, begin, at, crc));
    return add_piece(zip, begin + after, at + after, size - after);
}

static uint64_t version_for(const zip_place *member)
{
    return member->size >= in_zip64 || member->header >= in_zip64 ? ZIP64_VERSION : PLAIN_VERSION;
}

/* Appends the header, the name, and extra fields up to the member's data. */
static grail_status append_header(buffer *out, const zip_place *member)
{
    static const unsigned char filler[ALIGNMENT] = "ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ"
                                                   "ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ";
    const size_t name = strlen(member->name);
    const size_t extra = member->data - member->header - HEADER_SIZE - name;
    const size_t zip64 = member->size >= in_zip64 ? FIELD_SIZE + 16 : 0;
    CHECK(APPEND(out, {HEADER_SIGNATURE, 4}, {version_for(member), 2}, {NAMES_ARE_UTF8, 2}, {0, 2},
                 {0, 2}, {EPOCH_DATE, 2}, {member->crc, 4}, {cap(member->size), 4},
                 {cap(member->size), 4}, {name, 2}, {extra, 2}));
    CHECK(buffer_append(out, member->name, name));
    if (zip64 > 0) {
        CHECK(APPEND(out, {ZIP64_FIELD, 2}, {16, 2}, {member->size, 8}, {member->size, 8}));
    }
    CHECK(APPEND(out, {PADDING_FIELD, 2}, {extra - zip64 - FIELD_SIZE, 2}));
    return buffer_append(out, filler, extra - zip64 - FIELD_SIZE);
}

grail_status zip_layout_add(zip_layout *zip, const char *name, const void *data, size_t size)
{
    const size_t at = zip->file.bytes.size;
    CHECK(memory_reserve(&zip->members, (size_t)zip->count + 1, sizeof zip->members[0]));
    zip_place *member = &zip->members[zip->count];
    *member = (zip_place){
        .header = zip->file.file_size,
        .size = size,
        .later = data == NULL,
        .crc = data == NULL ? 0 : (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, size),
        .header_crc = zip->file.file_size + CRC_IN_HEADER,
    };
    CHECK(memory_copy_string(&member->name, name));
    zip->count++;
    const size_t fields = FIELD_SIZE + (size >= in_zip64 ? FIELD_SIZE + 16 : 0);
    const size_t least = zip->file.file_size + HEADER_SIZE + strlen(name) + fields;
    member->data = (least + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!size_add(member->data, size, &zip->file.file_size) ||
        zip->file.file_size > INT64_MAX / 2) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the tensors take more bytes than a file can hold");
    }
    CHECK(append_header(&zip->file.bytes, member));
    if (data != NULL) {
        CHECK(buffer_append(&zip->file.bytes, data, size));
    }
    return add_record(zip, member, member->header, at, CRC_IN_HEADER);
}

static grail_status append_entry(buffer *out, const zip_place *member)
{
    const size_t name = strlen(member->name);
    const bool large = member->size >= in_zip64;
    const bool far = member->header >= in_zip64;
    const size_t numbers = (large ? 16U : 0U) + (far ? 8U : 0U);
    CHECK(APPEND(out, {ENTRY_SIGNATURE, 4}, {version_for(member), 2}, {version_for(member), 2},
                 {NAMES_ARE_UTF8, 2}, {0, 2}, {0, 2}, {EPOCH_DATE, 2}, {member->crc, 4},
                 {cap(member->size), 4}, {cap(member->size), 4}, {name, 2},
                 {numbers > 0 ? numbers + FIELD_SIZE : 0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 4},
                 {cap(member->header), 4}));
    CHECK(buffer_append(out, member->name, name));
    if (numbers > 0) {
        CHECK(APPEND(out, {ZIP64_FIELD, 2}, {numbers, 2}));
    }
    if (large) {
        CHECK(APPEND(out, {member->size, 8}, {member->size, 8}));
    }
    if (far) {
        CHECK(APPEND(out, {member->header, 8}));
    }
    return GRAIL_OK;
}

grail_status zip_layout_finish(zip_layout *zip)
{
    const size_t begin = zip->file.file_size;
    const size_t first = zip->file.bytes.size;
    for (int64_t i = 0; i < zip->count; i++) {
        zip_place *member = &zip->members[i];
        const size_t at = zip->file.bytes.size;
        member->directory_crc = begin + (at - first) + CRC_IN_ENTRY;
        CHECK(append_entry(&zip->file.bytes, member));
        CHECK(add_record(zip, member, begin + (at - first), at, CRC_IN_ENTRY));
    }
    const size_t end = zip->file.bytes.size;
    /* the zip64 records are written only if the plain record cannot hold a number */
    const size_t size = end - first;
    const size_t count = (size_t)zip->count;
    const uint64_t entries = count < MOST_ENTRIES ? count : MOST_ENTRIES;
    if (count >= MOST_ENTRIES || begin >= in_zip64 || size >= in_zip64) {
        CHECK(APPEND(&zip->file.bytes, {END64_SIGNATURE, 4}, {44, 8}, {ZIP64_VERSION, 2},
                     {ZIP64_VERSION, 2}, {0, 4}, {0, 4}, {count, 8}, {count, 8}, {size, 8},
                     {begin, 8}));
        CHECK(
            APPEND(&zip->file.bytes, {LOCATOR64_SIGNATURE, 4}, {0, 4}, {begin + size, 8}, {1, 4}));
    }
    CHECK(APPEND(&zip->file.bytes, {END_SIGNATURE, 4}, {0, 2}, {0, 2}, {entries, 2}, {entries, 2},
                 {cap(size), 4}, {cap(begin), 4}, {0, 2}));
    zip->file.seal = (layout_piece){
        .begin = begin + (end - first), .at = end, .size = zip->file.bytes.size - end};
    zip->file.file_size = begin + (zip->file.bytes.size - first);
    return GRAIL_OK;
}

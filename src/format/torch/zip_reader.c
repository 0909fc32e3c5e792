/* Zip archives. Source: PKWARE's APPNOTE.TXT, 4.3.7 (local header), 4.3.12 (directory), 4.3.14-16
 * (its end), 4.5.3 (zip64). */
#include "format/torch/zip_reader.h"

#include "base/bytes.h"
#include "format/name_index.h"

#include <stdlib.h>
#include <string.h>

enum {
    LOCAL_SIGNATURE = 0x04034b50,
    ENTRY_SIGNATURE = 0x02014b50,
    END_SIGNATURE = 0x06054b50,
    END64_SIGNATURE = 0x06064b50,
    LOCATOR64_SIGNATURE = 0x07064b50,
    LOCAL_SIZE = 30,
    ENTRY_SIZE = 46,
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR64_SIZE = 20,
    LONGEST_COMMENT = 0xffff,
    ZIP64_FIELD = 1,
    ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13, /* traditional, strong, and with a masked directory */
    SIZES_FOLLOW = 1 << 3,                 /* the local header leaves out the sizes */
    STORED = 0
};

static const uint64_t in_zip64 = 0xffffffff; /* the number is in the zip64 field instead */

struct zip_reader {
    const unsigned char *bytes;
    size_t size;
    size_t directory; /* where it begins */
    size_t directory_size;
    zip_member *members;
    int64_t count;
    name_index index;
};

/* Searches backwards for the signature of the end record, whose comment must end the file. */
static bool find_end(const zip_reader *zip, size_t *out)
{
    const size_t most = END_SIZE + LONGEST_COMMENT;
    const size_t first = zip->size > most ? zip->size - most : 0;
    for (size_t left = zip->size; left >= first + END_SIZE; left--) {
        const size_t at = left - END_SIZE;
        const unsigned char *record = zip->bytes + at;
        if (load_little(record, 4) == END_SIGNATURE &&
            load_little(record + 20, 2) == zip->size - at - END_SIZE) {
            *out = at;
            return true;
        }
    }
    return false;
}

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
    if (contradicts(facts->entries, 0xffff, wide.entries) ||
        contradicts(facts->size, in_zip64, wide.size) ||
        contradicts(facts->begin, in_zip64, wide.begin)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the two end records of the zip directory contradict each other");
    }
    *facts = wide;
    *end = at;
    return GRAIL_OK;
}

static grail_status find_directory(zip_reader *zip, uint64_t *entries)
{
    size_t end = 0;
    if (!find_end(zip, &end)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the zip directory at the end of the file is missing: truncated?");
    }
    const unsigned char *record = zip->bytes + end;
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
    while (size >= 4) {
        const size_t length = load_little(extra + 2, 2);
        if (length > size - 4) {
            return false;
        }
        size_t at = 0;
        for (size_t i = 0; load_little(extra, 2) == ZIP64_FIELD && i < 3; i++) {
            if (*numbers[i] == in_zip64 && at + 8 <= length) {
                *numbers[i] = load_little(extra + 4 + at, 8);
                at += 8;
            }
        }
        extra += 4 + length;
        size -= 4 + length;
    }
    return true;
}

/* Reads the entry at *at and moves *at past it. */
static grail_status read_entry(const zip_reader *zip, size_t *at, zip_entry *entry,
                               zip_member *member)
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
        .stored_size = load_little(record + 20, 4),
        .size = load_little(record + 24, 4),
        .header = load_little(record + 42, 4),
        .name = record + ENTRY_SIZE,
        .name_size = name,
    };
    member->crc = (uint32_t)load_little(record + 16, 4);
    if (!read_zip64(record + ENTRY_SIZE + name, extra, entry)) {
        return error_set(GRAIL_ERROR_FORMAT, "a field in the zip directory reaches past its entry");
    }
    *at += ENTRY_SIZE + name + extra + comment;
    return GRAIL_OK;
}

static grail_status copy_name(const zip_entry *entry, char **out)
{
    if (entry->name_size == 0 || entry->name_size > ZIP_LONGEST_NAME ||
        memchr(entry->name, 0, entry->name_size) != NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the name of a member is empty, contains a NUL, or has more than %d bytes",
                         ZIP_LONGEST_NAME);
    }
    CHECK(memory_new(out, entry->name_size + 1, 1));
    memcpy(*out, entry->name, entry->name_size);
    return GRAIL_OK;
}

static grail_status check_claims(const zip_entry *entry)
{
    if ((entry->flags & ENCRYPTED) != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "is encrypted");
    }
    if (entry->method == STORED && entry->stored_size != entry->size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is stored without compression, but claims to hold %llu bytes in %llu",
                         (unsigned long long)entry->size, (unsigned long long)entry->stored_size);
    }
    return GRAIL_OK;
}

/* Local headers of torch's own files leave out sizes and checksum; others may store the sizes in a
 * zip64 field. */
static bool agrees(const unsigned char *header, const zip_entry *entry, const zip_member *member)
{
    const uint64_t stored_size = load_little(header + 18, 4);
    const uint64_t size = load_little(header + 22, 4);
    if (load_little(header, 4) != LOCAL_SIGNATURE || load_little(header + 8, 2) != entry->method ||
        load_little(header + 26, 2) != entry->name_size) {
        return false;
    }
    if ((load_little(header + 6, 2) & SIZES_FOLLOW) != 0) {
        return true;
    }
    return load_little(header + 14, 4) == member->crc &&
           (stored_size == in_zip64 || stored_size == entry->stored_size) &&
           (size == in_zip64 || size == entry->size);
}

/* Finds the bytes of a member, which follow its local header. The header must agree with the entry.
 */
static grail_status find_bytes(const zip_reader *zip, const zip_entry *entry, zip_member *member)
{
    const size_t end = zip->directory;
    const size_t least = LOCAL_SIZE + entry->name_size;
    const bool is_inside = entry->header <= end && least <= end - entry->header;
    const unsigned char *header = is_inside ? zip->bytes + entry->header : NULL;
    if (!is_inside || !agrees(header, entry, member) ||
        memcmp(header + LOCAL_SIZE, entry->name, entry->name_size) != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "has a header that contradicts the zip directory");
    }
    const size_t begin = entry->header + least + load_little(header + 28, 2);
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

static grail_status check_member(const zip_reader *zip, const zip_entry *entry, zip_member *member)
{
    CHECK(check_claims(entry));
    return find_bytes(zip, entry, member);
}

static grail_status read_member(const zip_reader *zip, size_t *at, zip_member *member)
{
    zip_entry entry = {0};
    CHECK(read_entry(zip, at, &entry, member));
    CHECK(copy_name(&entry, &member->name));
    return error_in(check_member(zip, &entry, member), "member '%s'", member->name);
}

static grail_status read_members(zip_reader *zip)
{
    uint64_t entries = 0;
    CHECK(find_directory(zip, &entries));
    CHECK(memory_new(&zip->members, entries, sizeof zip->members[0]));
    zip->count = (int64_t)entries;
    size_t at = zip->directory;
    for (uint64_t i = 0; i < entries; i++) {
        CHECK(read_member(zip, &at, &zip->members[i]));
    }
    if (at != zip->directory + zip->directory_size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the zip directory holds more than the %llu members that it claims",
                         (unsigned long long)entries);
    }
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

static grail_status index_names(zip_reader *zip)
{
    CHECK(name_index_init(&zip->index, zip->count, zip->members, sizeof zip->members[0]));
    const char *twice = name_index_twice(&zip->index);
    return twice == NULL ? GRAIL_OK
                         : error_set(GRAIL_ERROR_FORMAT, "member '%s' occurs twice", twice);
}

grail_status zip_reader_open(const void *bytes, size_t size, zip_reader **out)
{
    grail_status status = GRAIL_OK;
    zip_reader *zip = NULL;
    TRY(memory_new(&zip, 1, sizeof *zip));
    *zip = (zip_reader){.bytes = bytes, .size = size};
    TRY(read_members(zip));
    TRY(index_names(zip));
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

int64_t zip_reader_count(const zip_reader *zip)
{
    return zip->count;
}

const zip_member *zip_reader_at(const zip_reader *zip, int64_t i)
{
    return i >= 0 && i < zip->count ? &zip->members[i] : NULL;
}

const zip_member *zip_reader_find(const zip_reader *zip, const char *name)
{
    return zip_reader_at(zip, name_index_find(&zip->index, name));
}

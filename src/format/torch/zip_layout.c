/* Source: PKWARE's APPNOTE.TXT, 4.3.7 (local header), 4.3.12 (directory), 4.3.14-16 (its
 * end), 4.5.3 (zip64); the padding field is that of torch, caffe2/serialize/inline_container.cc. */
#include "format/torch/zip_layout.h"

#include "base/bytes.h"

#include <string.h>
#include <zlib.h>

enum {
    ALIGNMENT = 64,
    HEADER_SIZE = 30,
    ENTRY_SIZE = 46,
    CRC_IN_HEADER = 14,
    CRC_IN_ENTRY = 16,
    CRC_SIZE = 4,
    ZIP64_ID = 0x0001,
    PADDING_ID = 0x4246, /* "FB" */
    FIELD_SIZE = 4,      /* of the head of an extra field: id and length */
    NAMES_ARE_UTF8 = 1 << 11,
    PLAIN_VERSION = 20, /* of the format: 2.0 */
    ZIP64_VERSION = 45,
    EPOCH_DATE = 1 << 5 | 1, /* the first of January 1980 */
    LARGEST_LAYOUT = 1 << 30
};

/* Takes the place of every number that is not below it; the number is stored in a zip64 field. */
static const size_t zip64_limit = 0xffffffff;

void zip_layout_init(zip_layout *zip)
{
    *zip = (zip_layout){0};
    buffer_init(&zip->bytes, LARGEST_LAYOUT);
}

void zip_layout_fini(zip_layout *zip)
{
    for (int64_t i = 0; i < zip->count; i++) {
        memory_free(zip->members[i].name);
    }
    memory_free(zip->members);
    memory_free(zip->pieces);
    buffer_fini(&zip->bytes);
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
    return value < zip64_limit ? value : zip64_limit;
}

/* Adds a piece: `size` bytes of the layout from `at` on are written at `begin` of the file. */
static grail_status add_piece(zip_layout *zip, size_t begin, size_t at, size_t size)
{
    CHECK(memory_reserve(&zip->pieces, (size_t)zip->piece_count + 1, sizeof zip->pieces[0]));
    zip->pieces[zip->piece_count++] = (layout_piece){.begin = begin, .at = at, .size = size};
    return GRAIL_OK;
}

/* Adds what describes a member. If its content is written later, the checksum, which is `crc` bytes
 * after `begin`, is left out. */
static grail_status add_record(zip_layout *zip, const zip_place *member, size_t begin, size_t at,
                               size_t crc)
{
    const size_t size = zip->bytes.size - at;
    const size_t after = crc + CRC_SIZE;
    if (!member->later) {
        return add_piece(zip, begin, at, size);
    }
    CHECK(add_piece(zip, begin, at, crc));
    return add_piece(zip, begin + after, at + after, size - after);
}

static grail_status append_padding(buffer *out, size_t size)
{
    static const unsigned char filler[ALIGNMENT] = "ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ"
                                                   "ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ";
    CHECK(APPEND(out, {PADDING_ID, 2}, {size, 2}));
    return buffer_append(out, filler, size);
}

static uint64_t version_for(const zip_place *member)
{
    return member->size >= zip64_limit || member->header >= zip64_limit ? ZIP64_VERSION
                                                                        : PLAIN_VERSION;
}

/* Appends the header, the name, and extra fields up to the member's data. */
static grail_status append_header(buffer *out, const zip_place *member)
{
    const size_t name = strlen(member->name);
    const size_t extra = member->data - member->header - HEADER_SIZE - name;
    const size_t zip64 = member->size >= zip64_limit ? FIELD_SIZE + 16 : 0;
    CHECK(APPEND(out, {0x04034b50, 4}, {version_for(member), 2}, {NAMES_ARE_UTF8, 2}, {0, 2},
                 {0, 2}, {EPOCH_DATE, 2}, {member->crc, 4}, {cap(member->size), 4},
                 {cap(member->size), 4}, {name, 2}, {extra, 2}));
    CHECK(buffer_append(out, member->name, name));
    if (zip64 > 0) {
        CHECK(APPEND(out, {ZIP64_ID, 2}, {16, 2}, {member->size, 8}, {member->size, 8}));
    }
    return append_padding(out, extra - zip64 - FIELD_SIZE);
}

static grail_status new_member(zip_layout *zip, const char *name, zip_place **out)
{
    CHECK(memory_reserve(&zip->members, (size_t)zip->count + 1, sizeof zip->members[0]));
    zip->members[zip->count] = (zip_place){0};
    CHECK(memory_copy_string(&zip->members[zip->count].name, name));
    *out = &zip->members[zip->count++];
    return GRAIL_OK;
}

grail_status zip_layout_add(zip_layout *zip, const char *name, const void *data, size_t size)
{
    zip_place *member = NULL;
    const size_t at = zip->bytes.size;
    CHECK(new_member(zip, name, &member));
    member->header = zip->file_size;
    member->size = size;
    member->later = data == NULL;
    member->crc = data == NULL ? 0 : (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, size);
    member->header_crc = member->header + CRC_IN_HEADER;
    const size_t fields = FIELD_SIZE + (size >= zip64_limit ? FIELD_SIZE + 16 : 0);
    const size_t least = zip->file_size + HEADER_SIZE + strlen(name) + fields;
    member->data = (least + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!size_add(member->data, size, &zip->file_size) || zip->file_size > INT64_MAX / 2) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the tensors take more bytes than a file can hold");
    }
    CHECK(append_header(&zip->bytes, member));
    if (data != NULL) {
        CHECK(buffer_append(&zip->bytes, data, size));
    }
    return add_record(zip, member, member->header, at, CRC_IN_HEADER);
}

static grail_status append_entry(buffer *out, const zip_place *member)
{
    const size_t name = strlen(member->name);
    const bool large = member->size >= zip64_limit;
    const bool far = member->header >= zip64_limit;
    const size_t numbers = (large ? 16U : 0U) + (far ? 8U : 0U);
    CHECK(APPEND(out, {0x02014b50, 4}, {version_for(member), 2}, {version_for(member), 2},
                 {NAMES_ARE_UTF8, 2}, {0, 2}, {0, 2}, {EPOCH_DATE, 2}, {member->crc, 4},
                 {cap(member->size), 4}, {cap(member->size), 4}, {name, 2},
                 {numbers > 0 ? numbers + FIELD_SIZE : 0, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 4},
                 {cap(member->header), 4}));
    CHECK(buffer_append(out, member->name, name));
    if (numbers > 0) {
        CHECK(APPEND(out, {ZIP64_ID, 2}, {numbers, 2}));
    }
    if (large) {
        CHECK(APPEND(out, {member->size, 8}, {member->size, 8}));
    }
    if (far) {
        CHECK(APPEND(out, {member->header, 8}));
    }
    return GRAIL_OK;
}

/* Appends the end of the directory, which has `count` entries in [begin, begin + size). The zip64
 * records are written only if the plain record cannot hold a number. */
static grail_status append_end(buffer *out, size_t count, size_t begin, size_t size)
{
    const size_t most_entries = 0xffff;
    if (count >= most_entries || begin >= zip64_limit || size >= zip64_limit) {
        CHECK(APPEND(out, {0x06064b50, 4}, {44, 8}, {ZIP64_VERSION, 2}, {ZIP64_VERSION, 2}, {0, 4},
                     {0, 4}, {count, 8}, {count, 8}, {size, 8}, {begin, 8}));
        CHECK(APPEND(out, {0x07064b50, 4}, {0, 4}, {begin + size, 8}, {1, 4}));
    }
    const uint64_t entries = count < most_entries ? count : most_entries;
    return APPEND(out, {0x06054b50, 4}, {0, 2}, {0, 2}, {entries, 2}, {entries, 2}, {cap(size), 4},
                  {cap(begin), 4}, {0, 2});
}

grail_status zip_layout_finish(zip_layout *zip)
{
    const size_t begin = zip->file_size;
    const size_t first = zip->bytes.size;
    for (int64_t i = 0; i < zip->count; i++) {
        zip_place *member = &zip->members[i];
        const size_t at = zip->bytes.size;
        member->directory_crc = begin + (at - first) + CRC_IN_ENTRY;
        CHECK(append_entry(&zip->bytes, member));
        CHECK(add_record(zip, member, begin + (at - first), at, CRC_IN_ENTRY));
    }
    const size_t end = zip->bytes.size;
    CHECK(append_end(&zip->bytes, (size_t)zip->count, begin, end - first));
    zip->seal =
        (layout_piece){.begin = begin + (end - first), .at = end, .size = zip->bytes.size - end};
    zip->file_size = begin + (zip->bytes.size - first);
    return GRAIL_OK;
}

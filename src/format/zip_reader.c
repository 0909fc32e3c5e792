/* Zip archives: minizip walks the central directory (zip64, too) and finds where members begin,
 * zlib inflates. Format: PKWARE's APPNOTE.TXT, sections 4.3 to 4.5. */
#include "format/zip_reader.h"

#include "format/name_index.h"

#include <minizip/unzip.h>

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13, /* plainly, strongly, and with a masked directory */
    STORED = 0,
    DEFLATED = 8,
    MOST_INFLATED = 1032 /* bytes that deflate can make of one (zlib's technical notes) */
};

struct zip_reader {
    const unsigned char *bytes;
    size_t size;
    zip_member *members;
    int64_t count;
    name_index index;
};

/* minizip reads through these instead of a file. */
typedef struct source {
    const unsigned char *bytes;
    size_t size;
    size_t at;
} source;

static voidpf ZCALLBACK open_source(voidpf opaque, const void *name, int mode)
{
    (void)name;
    (void)mode;
    return opaque;
}

static uLong ZCALLBACK read_source(voidpf opaque, voidpf stream, void *out, uLong count)
{
    source *s = stream;
    const size_t left = s->size - s->at;
    const size_t taken = count < left ? count : left;
    (void)opaque;
    memcpy(out, s->bytes + s->at, taken);
    s->at += taken;
    return taken;
}

static ZPOS64_T ZCALLBACK tell_source(voidpf opaque, voidpf stream)
{
    const source *s = stream;
    (void)opaque;
    return s->at;
}

static long ZCALLBACK seek_source(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin)
{
    source *s = stream;
    size_t base = 0;
    size_t at = 0;
    (void)opaque;
    if (origin == ZLIB_FILEFUNC_SEEK_CUR) {
        base = s->at;
    } else if (origin == ZLIB_FILEFUNC_SEEK_END) {
        base = s->size;
    }
    if (!size_add(base, offset, &at) || at > s->size) {
        return -1;
    }
    s->at = at;
    return 0;
}

static int ZCALLBACK close_source(voidpf opaque, voidpf stream)
{
    (void)opaque;
    (void)stream;
    return 0;
}

static int ZCALLBACK source_error(voidpf opaque, voidpf stream)
{
    (void)opaque;
    (void)stream;
    return 0;
}

static unzFile open_directory(source *s)
{
    zlib_filefunc64_def functions = {
        .zopen64_file = open_source,
        .zread_file = read_source,
        .ztell64_file = tell_source,
        .zseek64_file = seek_source,
        .zclose_file = close_source,
        .zerror_file = source_error,
        .opaque = s,
    };
    return unzOpen2_64("", &functions);
}

static grail_status check_claims(const unz_file_info64 *info, const char *name)
{
    if ((info->flag & ENCRYPTED) != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "member '%s' is encrypted", name);
    }
    if (info->compression_method != STORED && info->compression_method != DEFLATED) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "member '%s' is compressed by method %lu; only stored and deflated "
                         "members can be read",
                         name, info->compression_method);
    }
    if (info->compression_method == STORED && info->compressed_size != info->uncompressed_size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "member '%s' is stored as it is, but claims %llu bytes in %llu", name,
                         (unsigned long long)info->uncompressed_size,
                         (unsigned long long)info->compressed_size);
    }
    if (info->uncompressed_size / MOST_INFLATED > info->compressed_size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "member '%s' claims %llu bytes, more than its %llu compressed ones can "
                         "hold",
                         name, (unsigned long long)info->uncompressed_size,
                         (unsigned long long)info->compressed_size);
    }
    return GRAIL_OK;
}

/* The local header must agree with the directory (minizip compares them); its own length says where
 * the bytes begin. `end` is where the directory begins. */
static grail_status find_bytes(unzFile directory, const char *name, size_t end,
                               const unz_file_info64 *info, size_t *out)
{
    int method = 0;
    const int code = unzOpenCurrentFile2(directory, &method, NULL, 1);
    if (code == UNZ_INTERNALERROR) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory while reading member '%s'", name);
    }
    if (code != UNZ_OK) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "member '%s' has a header that the directory contradicts", name);
    }
    const size_t begin = unzGetCurrentFileZStreamPos64(directory);
    (void)unzCloseCurrentFile(directory);
    if (begin > end || info->compressed_size > end - begin) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "member '%s' has %llu bytes from byte %zu on, but the directory begins at "
                         "%zu: truncated?",
                         name, (unsigned long long)info->compressed_size, begin, end);
    }
    *out = begin;
    return GRAIL_OK;
}

/* The member that the directory stands at. */
static grail_status read_member(unzFile directory, size_t end, zip_member *member)
{
    grail_status status = GRAIL_OK;
    unz_file_info64 info = {0};
    char name[ZIP_LONGEST_NAME + 1] = {0};
    if (unzGetCurrentFileInfo64(directory, &info, name, ZIP_LONGEST_NAME, NULL, 0, NULL, 0) !=
        UNZ_OK) {
        FAIL(GRAIL_ERROR_FORMAT, "the zip directory is damaged");
    }
    if (info.size_filename > ZIP_LONGEST_NAME || strlen(name) != info.size_filename) {
        FAIL(GRAIL_ERROR_FORMAT, "the name of member '%.64s...' has a NUL or more than %d bytes",
             name, ZIP_LONGEST_NAME);
    }
    TRY(check_claims(&info, name));
    TRY(find_bytes(directory, name, end, &info, &member->offset));
    TRY(memory_copy_string(&member->name, name));
    member->deflated = info.compression_method == DEFLATED;
    member->crc = (uint32_t)info.crc;
    member->stored_size = info.compressed_size;
    member->size = info.uncompressed_size;
out:
    return status;
}

static grail_status read_members(zip_reader *zip, unzFile directory)
{
    grail_status status = GRAIL_OK;
    unz_global_info64 info = {0};
    unz64_file_pos place = {0};
    (void)unzGetGlobalInfo64(directory, &info);
    /* A member takes 46 bytes of the directory at least. */
    if (info.number_entry > ZIP_MOST_MEMBERS || info.number_entry > zip->size / 46) {
        FAIL(GRAIL_ERROR_FORMAT, "the zip directory claims %llu members",
             (unsigned long long)info.number_entry);
    }
    TRY(memory_new(&zip->members, info.number_entry, sizeof zip->members[0]));
    if (info.number_entry > 0 && unzGetFilePos64(directory, &place) != UNZ_OK) {
        FAIL(GRAIL_ERROR_FORMAT, "the zip directory is damaged");
    }
    for (uint64_t i = 0; i < info.number_entry; i++) {
        if (i > 0 && unzGoToNextFile(directory) != UNZ_OK) {
            FAIL(GRAIL_ERROR_FORMAT, "the zip directory claims %llu members, but %llu can be read",
                 (unsigned long long)info.number_entry, (unsigned long long)i);
        }
        TRY(read_member(directory, place.pos_in_zip_directory, &zip->members[i]));
        zip->count++;
    }
out:
    return status;
}

static int compare_offsets(const void *a, const void *b)
{
    const zip_member *const *left = a;
    const zip_member *const *right = b;
    return ((*left)->offset > (*right)->offset) - ((*left)->offset < (*right)->offset);
}

static grail_status check_overlap(const zip_reader *zip)
{
    grail_status status = GRAIL_OK;
    const zip_member **sorted = NULL;
    TRY(memory_new_unset(&sorted, (size_t)zip->count, sizeof sorted[0]));
    for (int64_t i = 0; i < zip->count; i++) {
        sorted[i] = &zip->members[i];
    }
    qsort(sorted, (size_t)zip->count, sizeof sorted[0], compare_offsets);
    for (int64_t i = 0; i + 1 < zip->count; i++) {
        if (sorted[i]->stored_size > sorted[i + 1]->offset - sorted[i]->offset) {
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
    grail_status status = GRAIL_OK;
    const char **names = NULL;
    TRY(memory_new_unset(&names, (size_t)zip->count, sizeof names[0]));
    for (int64_t i = 0; i < zip->count; i++) {
        names[i] = zip->members[i].name;
    }
    TRY(name_index_init(&zip->index, zip->count, names));
    const int64_t twice = name_index_duplicate(&zip->index);
    if (twice >= 0) {
        FAIL(GRAIL_ERROR_FORMAT, "member '%s' occurs twice", zip->index.entries[twice].name);
    }
out:
    memory_free(names);
    return status;
}

grail_status zip_reader_open(const void *bytes, size_t size, zip_reader **out)
{
    grail_status status = GRAIL_OK;
    zip_reader *zip = NULL;
    source s = {.bytes = bytes, .size = size};
    unzFile directory = open_directory(&s);
    TRY(memory_new(&zip, 1, sizeof *zip));
    *zip = (zip_reader){.bytes = bytes, .size = size};
    if (directory == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "the zip directory at its end is missing: truncated?");
    }
    TRY(read_members(zip, directory));
    TRY(index_names(zip));
    TRY(check_overlap(zip));
    *out = zip;
    zip = NULL;
out:
    if (directory != NULL) {
        (void)unzClose(directory);
    }
    zip_reader_close(zip);
    return status;
}

void zip_reader_close(zip_reader *zip)
{
    if (zip == NULL) {
        return;
    }
    for (int64_t i = 0; zip->members != NULL && i < zip->count; i++) {
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

/* The next part of what is left; zlib counts in 32 bits. */
static unsigned part_of(size_t left)
{
    return left < 1U << 30 ? (unsigned)left : 1U << 30;
}

/* Raw deflate of exactly out[size], in parts. */
static int inflate_bytes(const unsigned char *bytes, size_t stored_size, unsigned char *out,
                         size_t size)
{
    union {
        const unsigned char *read_only;
        unsigned char *any; /* zlib does not write to it */
    } in = {.read_only = bytes};
    z_stream stream = {.next_in = in.any, .next_out = out};
    int code = inflateInit2(&stream, -MAX_WBITS);
    if (code != Z_OK) {
        return code;
    }
    while (code == Z_OK) {
        stream.avail_in = part_of(stored_size - stream.total_in);
        stream.avail_out = part_of(size - stream.total_out);
        code = inflate(&stream, Z_NO_FLUSH);
    }
    if (code == Z_STREAM_END && (stream.total_out != size || stream.total_in != stored_size)) {
        code = Z_DATA_ERROR;
    }
    (void)inflateEnd(&stream);
    return code;
}

static grail_status inflate_member(const zip_reader *zip, const zip_member *member,
                                   unsigned char *out)
{
    const int code =
        inflate_bytes(zip->bytes + member->offset, member->stored_size, out, member->size);
    if (code == Z_MEM_ERROR) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory while inflating member '%s'",
                         member->name);
    }
    if (code != Z_STREAM_END) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "member '%s' does not inflate to the %zu bytes claimed", member->name,
                         member->size);
    }
    if (crc32_z(crc32_z(0, NULL, 0), out, member->size) != member->crc) {
        return error_set(GRAIL_ERROR_FORMAT, "member '%s' does not have its checksum",
                         member->name);
    }
    return GRAIL_OK;
}

grail_status zip_reader_bytes(const zip_reader *zip, const zip_member *member, const void **out,
                              void **owned)
{
    grail_status status = GRAIL_OK;
    unsigned char *inflated = NULL;
    if (!member->deflated) {
        *out = zip->bytes + member->offset;
        *owned = NULL;
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&inflated, member->size, 1));
    TRY(inflate_member(zip, member, inflated));
    *out = inflated;
    *owned = inflated;
    inflated = NULL;
out:
    memory_free(inflated);
    return status;
}

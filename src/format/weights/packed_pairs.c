#include "format/weights/packed_pairs.h"

#include "tensor/packed.h"

#include <string.h>

static const char blocks_ending[] = "_blocks";
static const char scales_ending[] = "_scales";

enum { BLOCK_BYTES = PACKED_BLOCK / 2, BLOCKS_RANK = 4, SCALES_RANK = 3 };

/* The length of a name without `ending`; 0 where it ends otherwise. */
static size_t stem_of(const char *name, const char *ending)
{
    const size_t length = strlen(name);
    const size_t own = strlen(ending);
    return length > own && strcmp(name + length - own, ending) == 0 ? length - own : 0;
}

/* Files that are not mapped have no data yet. */
static bool is_half(const tensor_view *t, const char *ending)
{
    return t->dtype == GRAIL_DTYPE_U8 && t->data != NULL && stem_of(t->name, ending) > 0;
}

static grail_status check_shapes(const tensor_view *blocks, const tensor_view *scales)
{
    char of_blocks[64];
    char of_scales[64];
    if (blocks->rank == BLOCKS_RANK && scales->rank == SCALES_RANK &&
        blocks->shape[3] == BLOCK_BYTES && scales->dtype == GRAIL_DTYPE_U8 &&
        memcmp(blocks->shape, scales->shape, SCALES_RANK * sizeof blocks->shape[0]) == 0) {
        return GRAIL_OK;
    }
    return error_set(
        GRAIL_ERROR_FORMAT,
        "tensors '%s' %s and '%s' %s (%s) do not fit each other as weights in MXFP4: "
        "expected [n, out, in / 32, 16] and [n, out, in / 32] (U8)",
        blocks->name, shape_text(blocks->rank, blocks->shape, of_blocks, sizeof of_blocks),
        scales->name, shape_text(scales->rank, scales->shape, of_scales, sizeof of_scales),
        grail_dtype_name(scales->dtype));
}

/* The tensor of `index` whose name is that of `half` with the other ending; NULL without one. */
static grail_status find_other(const name_index *index, const tensor_view *const *tensors,
                               const tensor_view *half, const char *own, const char *other,
                               const tensor_view **out)
{
    char *name = NULL;
    CHECK(memory_format(&name, "%.*s%s", (int)stem_of(half->name, own), half->name, other));
    const int64_t at = name_index_find(index, name);
    *out = at < 0 ? NULL : tensors[at];
    memory_free(name);
    return GRAIL_OK;
}

static grail_status join(const name_index *index, const tensor_view *const *tensors,
                         const tensor_view *blocks, tensor_view *out)
{
    const tensor_view *scales = NULL;
    const tensor_view *plain = NULL;
    CHECK(find_other(index, tensors, blocks, blocks_ending, scales_ending, &scales));
    CHECK(find_other(index, tensors, blocks, blocks_ending, "", &plain));
    if (scales == NULL || plain != NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "tensor '%s' has weights in MXFP4, but %s '%.*s%s'",
                         blocks->name,
                         scales == NULL ? "the checkpoint lacks" : "beside it the checkpoint has",
                         (int)stem_of(blocks->name, blocks_ending), blocks->name,
                         scales == NULL ? scales_ending : "");
    }
    CHECK(check_shapes(blocks, scales));
    const int64_t blocks_of_row = blocks->shape[2];
    if (blocks_of_row > INT64_MAX / PACKED_BLOCK) {
        return error_set(GRAIL_ERROR_FORMAT, "tensor '%s' is too large to address", blocks->name);
    }
    *out =
        (tensor_view){.dtype = GRAIL_DTYPE_F4,
                      .rank = SCALES_RANK,
                      .shape = {blocks->shape[0], blocks_of_row * PACKED_BLOCK, blocks->shape[1]},
                      .data = blocks->data,
                      .bytes = blocks->bytes,
                      .scales = scales->data};
    char *name = NULL;
    CHECK(memory_format(&name, "%.*s", (int)stem_of(blocks->name, blocks_ending), blocks->name));
    out->name = name;
    return GRAIL_OK;
}

/* The scales of a pair; those without blocks stay. */
static grail_status is_taken(const name_index *index, const tensor_view *const *tensors,
                             const tensor_view *t, bool *out)
{
    const tensor_view *blocks = NULL;
    *out = false;
    if (is_half(t, scales_ending)) {
        CHECK(find_other(index, tensors, t, scales_ending, blocks_ending, &blocks));
        *out = blocks != NULL && is_half(blocks, blocks_ending);
    }
    return GRAIL_OK;
}

grail_status packed_pairs_join(const name_index *index, const tensor_view *tensors[], int file_of[],
                               int64_t *count, packed_pairs *out)
{
    grail_status status = GRAIL_OK;
    const tensor_view **joined = NULL;
    int64_t kept = 0;
    int64_t halves = 0;
    *out = (packed_pairs){0};
    for (int64_t i = 0; i < *count; i++) {
        halves += is_half(tensors[i], blocks_ending) ? 1 : 0;
    }
    if (halves == 0) {
        return GRAIL_OK;
    }
    TRY(memory_new(&out->views, (size_t)halves, sizeof out->views[0]));
    TRY(memory_new(&joined, (size_t)*count, sizeof joined[0]));
    for (int64_t i = 0; i < *count; i++) {
        bool taken = false;
        const tensor_view *t = tensors[i];
        TRY(is_taken(index, tensors, t, &taken));
        if (taken) {
            continue;
        }
        if (is_half(t, blocks_ending)) {
            TRY(join(index, tensors, t, &out->views[out->count]));
            t = &out->views[out->count++];
        }
        joined[kept] = t;
        file_of[kept++] = file_of[i];
    }
    memcpy(tensors, joined, (size_t)kept * sizeof joined[0]);
    *count = kept;
out:
    memory_free(joined);
    return status;
}

void packed_pairs_fini(packed_pairs *pairs)
{
    for (int64_t i = 0; i < pairs->count; i++) {
        memory_free((char *)(uintptr_t)pairs->views[i].name);
    }
    memory_free(pairs->views);
    *pairs = (packed_pairs){0};
}

/* Statistics as a safetensors file of F64 tensors: gram [H, H] (its lower triangle holds the sums),
 * sum [H], count (I64, no dimensions), with a target cross [O, H], target_sum [O] and target_square
 * [O], and where rows were weighted weight (F64, no dimensions). */
#include "stats/statistics.h"

#include "base/option_values.h"
#include "format/weights/safetensors.h"

#include <math.h>
#include <string.h>

enum { TENSORS = 7, TENSORS_WITHOUT_TARGET = 3 };

/* The tensors of a statistics file, the count first: what is written, and what a file must have to
 * be read. The sums have no data here. */
typedef struct statistics_layout {
    int count;
    tensor_view tensors[TENSORS];
    matrix sums[TENSORS]; /* none for the count and the weight */
} statistics_layout;

static void layout_add(statistics_layout *layout, const char *name, int rank, matrix sums)
{
    layout->sums[layout->count] = sums;
    layout->tensors[layout->count++] = (tensor_view){
        .name = name,
        .dtype = GRAIL_DTYPE_F64,
        .rank = rank,
        .shape = {rank == 1 ? sums.columns : sums.rows, sums.columns},
        .bytes = (size_t)matrix_count(sums) * sizeof(double),
    };
}

static void layout_of(const grail_statistics *s, statistics_layout *layout)
{
    *layout = (statistics_layout){.count = 1};
    layout->tensors[0] = (tensor_view){
        .name = "count", .dtype = GRAIL_DTYPE_I64, .data = &s->count, .bytes = sizeof s->count};
    layout_add(layout, "gram", 2, s->gram);
    layout_add(layout, "sum", 1, s->sum);
    if (s->outputs > 0) {
        layout_add(layout, "cross", 2, s->cross);
        layout_add(layout, "target_sum", 1, s->target_sum);
        layout_add(layout, "target_square", 1, s->target_square);
    }
}

static tensor_view weight_tensor(const double *weight)
{
    return (tensor_view){
        .name = "weight", .dtype = GRAIL_DTYPE_F64, .data = weight, .bytes = sizeof *weight};
}

grail_status grail_statistics_save(const grail_statistics *s, const char *path)
{
    grail_status status = GRAIL_OK;
    statistics_layout layout;
    host_view views[TENSORS] = {{.values = NULL}};
    CHECK(option_given("statistics", "object of statistics", s));
    CHECK(option_given("path", "path of a file", path));
    layout_of(s, &layout);
    for (int i = 1; i < layout.count; i++) {
        TRY(host_view_open(layout.sums[i], GRAIL_DTYPE_F64, HOST_READS, &views[i]));
        layout.tensors[i].data = views[i].values;
    }
    if (s->weight != (double)s->count) {
        layout.tensors[layout.count++] = weight_tensor(&s->weight);
    }
    TRY(safetensors_write_file(path, true, layout.count, layout.tensors));
out:
    for (int i = 1; i < TENSORS; i++) {
        host_view_drop(&views[i]);
    }
    return status;
}

static grail_status find_tensor(const char *path, const tensor_file *file, const char *name,
                                int rank, const tensor_view **out)
{
    const tensor_view *t = tensor_file_find(file, name);
    if (t == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: tensor '%s' is missing; this is not a statistics file", path, name);
    }
    if (t->rank != rank) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: tensor '%s' has %d dimensions, expected %d", path,
                         name, t->rank, rank);
    }
    *out = t;
    return GRAIL_OK;
}

static grail_status check_tensor(const char *path, const tensor_view *found,
                                 const tensor_view *expected)
{
    bool same = found->dtype == expected->dtype;
    for (int i = 0; i < expected->rank; i++) {
        same = same && found->shape[i] == expected->shape[i];
    }
    if (same) {
        return GRAIL_OK;
    }
    char found_text[64];
    char expected_text[64];
    return error_set(
        GRAIL_ERROR_FORMAT, "%s: tensor '%s' is %s %s, expected %s %s", path, expected->name,
        grail_dtype_name(found->dtype),
        shape_text(found->rank, found->shape, found_text, sizeof found_text),
        grail_dtype_name(expected->dtype),
        shape_text(expected->rank, expected->shape, expected_text, sizeof expected_text));
}

/* The weight of the rows, which is their number where the file has none. */
static grail_status read_weight(const char *path, const tensor_file *file, grail_statistics *s)
{
    const tensor_view expected = weight_tensor(NULL);
    const tensor_view *t = tensor_file_find(file, expected.name);
    s->weight = (double)s->count;
    if (t == NULL) {
        return GRAIL_OK;
    }
    CHECK(find_tensor(path, file, expected.name, expected.rank, &t));
    CHECK(check_tensor(path, t, &expected));
    memcpy(&s->weight, t->data, sizeof s->weight);
    if (!isfinite(s->weight) || s->weight < 0.0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: tensor 'weight' holds %g, expected 0 or more",
                         path, s->weight);
    }
    return GRAIL_OK;
}

static grail_status read_sums(const char *path, const tensor_file *file, grail_statistics *s)
{
    statistics_layout layout;
    layout_of(s, &layout);
    for (int i = 0; i < layout.count; i++) {
        const tensor_view *t = NULL;
        CHECK(find_tensor(path, file, layout.tensors[i].name, layout.tensors[i].rank, &t));
        CHECK(check_tensor(path, t, &layout.tensors[i]));
        if (matrix_exists(layout.sums[i])) {
            CHECK(matrix_upload(layout.sums[i], t->data));
        } else {
            memcpy(&s->count, t->data, t->bytes);
        }
        tensor_file_release(file, t);
    }
    if (s->count < 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: tensor 'count' holds %lld, expected 0 or more",
                         path, (long long)s->count);
    }
    CHECK(read_weight(path, file, s));
    return error_in(statistics_check_finite(s), "%s", path);
}

grail_status grail_statistics_load(const char *path, grail_statistics **out)
{
    grail_status status = GRAIL_OK;
    tensor_file *file = NULL;
    grail_statistics *s = NULL;
    const tensor_view *gram = NULL;
    const tensor_view *cross = NULL;
    CHECK(option_given("path", "path of a file", path));
    CHECK(option_given("out", "place for the statistics", out));
    TRY(safetensors_open(path, &file));
    TRY(find_tensor(path, file, "gram", 2, &gram));
    const int others = tensor_file_find(file, "weight") == NULL ? 0 : 1;
    if (file->count > TENSORS_WITHOUT_TARGET + others) {
        TRY(find_tensor(path, file, "cross", 2, &cross));
    }
    TRY(grail_statistics_create(gram->shape[1], cross == NULL ? 0 : cross->shape[0], &s));
    TRY(read_sums(path, file, s));
    *out = s;
    s = NULL;
out:
    grail_statistics_free(s);
    tensor_file_close(file);
    return status;
}

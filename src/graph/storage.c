#include "graph/storage.h"

#include "tensor/packed.h"

#include <stdlib.h>
#include <string.h>

/* -- shapes ------------------------------------------------------------------------------------ */

storage_map storage_rows(int64_t first, int64_t count)
{
    return (storage_map){.rows = {.first = first, .level = {{.count = count}}}};
}

static int64_t stride_of(const storage_level *level)
{
    return level->stride == 0 ? 1 : level->stride;
}

int64_t storage_position(const storage_axis *axis, int64_t i)
{
    int64_t at = axis->first;
    for (int l = 0; l < STORAGE_LEVELS && i > 0; l++) {
        const storage_level *level = &axis->level[l];
        const int64_t place = level->count == 0 ? i : i % level->count;
        at += place * stride_of(level);
        i = level->count == 0 ? 0 : i / level->count;
    }
    return at;
}

bool storage_axis_is_whole(const storage_axis *axis)
{
    return axis->first == 0 && axis->level[0].count == 0 && stride_of(&axis->level[0]) == 1;
}

static bool axis_is_contiguous(const storage_axis *axis, int64_t count)
{
    const storage_level *inner = &axis->level[0];
    return stride_of(inner) == 1 && (inner->count == 0 || inner->count >= count);
}

static double scale_of(const storage_map *map)
{
    return map->scale == 0.0 ? 1.0 : map->scale;
}

bool storage_is_affine(const storage_map *map)
{
    return scale_of(map) != 1.0 || map->offset != 0.0 || map->inverts;
}

bool storage_is_plain(const storage_map *map)
{
    return storage_axis_is_whole(&map->rows) && storage_axis_is_whole(&map->columns) &&
           !map->transposed && !storage_is_affine(map);
}

bool storage_is_run_of_rows(const storage_map *map, int64_t rows)
{
    return axis_is_contiguous(&map->rows, rows) && storage_axis_is_whole(&map->columns) &&
           !storage_is_affine(map);
}

/* A tensor as a matrix, for parameters of one rank. */
typedef struct tensor_matrix {
    int64_t rows, columns;
} tensor_matrix;

static int64_t product(const int64_t shape[], int begin, int end)
{
    int64_t elements = 1;
    for (int d = begin; d < end; d++) {
        elements *= shape[d];
    }
    return elements;
}

/* Dimensions before this one are rows. */
static int split_of(const stored_matrix *p, const tensor_view *tensor)
{
    return tensor->rank < p->rank ? 1 : tensor->rank - (p->rank - 1);
}

static tensor_matrix matrix_of(const stored_matrix *p, const tensor_view *tensor)
{
    const int split = split_of(p, tensor);
    return (tensor_matrix){.rows = product(tensor->shape, 0, split),
                           .columns = product(tensor->shape, split, tensor->rank)};
}

/* Whether no element lies outside the tensor's axis, whose positions are below `extent`. */
static bool axis_fits(const storage_axis *axis, int64_t count, int64_t extent)
{
    int64_t last = axis->first; /* where the element lies that is last on all levels */
    int64_t left = count;       /* places that the levels from here on have together */
    if (storage_axis_is_whole(axis)) {
        return count == extent;
    }
    if (axis->first < 0 || axis->first >= extent) {
        return count == 0 && axis->first == extent;
    }
    for (int l = 0; l < STORAGE_LEVELS && left > 1; l++) {
        const storage_level *level = &axis->level[l];
        const int64_t here = level->count == 0 || level->count > left ? left : level->count;
        if (level->count < 0 || level->stride < 0 ||
            here - 1 > (extent - 1 - last) / stride_of(level)) {
            return false;
        }
        last += (here - 1) * stride_of(level);
        left = (left - 1) / here + 1;
    }
    return left <= 1;
}

bool storage_fits(const stored_matrix *p, const tensor_view *tensor)
{
    const bool is_flat = p->rank == PARAMETER_MAX_RANK && tensor->rank == 2;
    const bool is_row = p->rank == PARAMETER_MAX_RANK && tensor->rank == PARAMETER_MAX_RANK - 1 &&
                        p->shape[PARAMETER_MAX_RANK - 1] == 1;
    const int dimensions = is_row ? tensor->rank : p->rank;
    if (tensor->rank < p->rank && !is_flat && !is_row) {
        return false;
    }
    const tensor_matrix t = matrix_of(p, tensor);
    const storage_map *map = &p->map;
    const bool stacked = product(tensor->shape, 0, tensor->rank - p->rank) != 1;
    if (stacked && storage_axis_is_whole(map->transposed ? &map->columns : &map->rows)) {
        return false;
    }
    if (p->rank > 2 && !is_flat && !map->transposed &&
        memcmp(&tensor->shape[tensor->rank - dimensions + 1], &p->shape[1],
               (size_t)(dimensions - 1) * sizeof p->shape[0]) != 0) {
        return false;
    }
    return axis_fits(&map->rows, p->shape[0], map->transposed ? t.columns : t.rows) &&
           axis_fits(&map->columns, row_elements(p->rank, p->shape),
                     map->transposed ? t.rows : t.columns);
}

/* -- reading ----------------------------------------------------------------------------------- */

/* `count` elements of the tensor as f32, from element `first` on; of blocks complete ones. */
static grail_status read_run(const tensor_view *tensor, int64_t first, int64_t count, float *out)
{
    size_t before = 0;
    if (tensor_is_packed(tensor)) {
        packed_to_f32(tensor, first, count, out);
        return GRAIL_OK;
    }
    if (!dtype_bytes(tensor->dtype, first, &before)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "tensor '%s' cannot be read from element %lld on: it has blocks of %s",
                         tensor->name, (long long)first, grail_dtype_name(tensor->dtype));
    }
    return convert_to_f32(tensor->dtype, (const unsigned char *)tensor->data + before, count, out);
}

/* Row r of the tensor's matrix as f32. */
static grail_status read_row(const tensor_view *tensor, int64_t r, int64_t columns, float *out)
{
    return read_run(tensor, r * columns, columns, out);
}

/* What is read for a number in the tensor. */
static float value_of(const storage_map *map, float number)
{
    const double term =
        map->inverts ? scale_of(map) / (double)number : scale_of(map) * (double)number;
    return (float)(term + map->offset);
}

/* The number in the tensor for a value, before it is rounded to the tensor's dtype. */
static float number_of(const storage_map *map, float value)
{
    const double term = (double)value - map->offset;
    return (float)(map->inverts ? scale_of(map) / term : term / scale_of(map));
}

/* The same, of all that are read as the value the dense tensor's own number, if it is one of them.
 */
static float number_before(const storage_map *map, float value, float dense)
{
    return value_of(map, dense) == value ? dense : number_of(map, value);
}

static void make_values(const storage_map *map, int64_t count, float *values)
{
    for (int64_t i = 0; storage_is_affine(map) && i < count; i++) {
        values[i] = value_of(map, values[i]);
    }
}

/* The tensor is read row by row, whichever axis of the parameter lies along its rows. */
static grail_status gather(const stored_matrix *p, const tensor_view *tensor, float *out)
{
    grail_status status = GRAIL_OK;
    const storage_map *map = &p->map;
    const int64_t width = matrix_of(p, tensor).columns;
    const int64_t rows = p->shape[0];
    const int64_t columns = row_elements(p->rank, p->shape);
    const int64_t outer = map->transposed ? columns : rows;
    const int64_t inner = map->transposed ? rows : columns;
    const storage_axis *across = map->transposed ? &map->columns : &map->rows;
    const storage_axis *along = map->transposed ? &map->rows : &map->columns;
    float *row = NULL;
    TRY(memory_new_unset(&row, (size_t)width, sizeof row[0]));
    for (int64_t r = 0; r < outer; r++) {
        TRY(read_row(tensor, storage_position(across, r), width, row));
        for (int64_t i = 0; i < inner; i++) {
            out[map->transposed ? i * columns + r : r * columns + i] =
                row[storage_position(along, i)];
        }
    }
out:
    memory_free(row);
    return status;
}

grail_status storage_read(const stored_matrix *p, const tensor_view *tensor, float *out)
{
    const storage_map *map = &p->map;
    const int64_t columns = row_elements(p->rank, p->shape);
    const int64_t count = p->shape[0] * columns;
    if (map->transposed || !axis_is_contiguous(&map->rows, p->shape[0]) ||
        !storage_axis_is_whole(&map->columns)) {
        CHECK(gather(p, tensor, out));
    } else {
        CHECK(read_run(tensor, map->rows.first * columns, count, out));
    }
    make_values(map, count, out);
    return GRAIL_OK;
}

grail_status storage_read_row(const stored_matrix *p, const tensor_view *tensor, int64_t row,
                              float *out)
{
    const int64_t columns = row_elements(p->rank, p->shape);
    const bool contiguous = !p->map.transposed && axis_is_contiguous(&p->map.columns, columns);
    const int64_t run = contiguous ? columns : 1;
    for (int64_t c = 0; c < columns; c += run) {
        const int64_t at = storage_element(p, tensor, row * columns + c);
        CHECK(read_run(tensor, at, run, out + c));
    }
    make_values(&p->map, columns, out);
    return GRAIL_OK;
}

grail_status storage_round(const storage_map *map, grail_dtype dtype, int64_t count, float *values)
{
    grail_status status = GRAIL_OK;
    void *stored = NULL;
    if (dtype == GRAIL_DTYPE_F32 && !storage_is_affine(map)) {
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&stored, (size_t)count, dtype_bits(dtype) / 8));
    for (int64_t i = 0; storage_is_affine(map) && i < count; i++) {
        values[i] = number_of(map, values[i]);
    }
    TRY(convert_from_f32(dtype, values, count, stored));
    TRY(convert_to_f32(dtype, stored, count, values));
    make_values(map, count, values);
out:
    memory_free(stored);
    return status;
}

int64_t storage_element(const stored_matrix *p, const tensor_view *tensor, int64_t i)
{
    const int64_t columns = row_elements(p->rank, p->shape);
    const int64_t r = storage_position(&p->map.rows, i / columns);
    const int64_t c = storage_position(&p->map.columns, i % columns);
    const int64_t width = matrix_of(p, tensor).columns;
    return p->map.transposed ? c * width + r : r * width + c;
}

/* -- covering ---------------------------------------------------------------------------------- */

/* A set of positions that parameters have on one axis of their tensor. */
typedef struct axis_class {
    const storage_axis *axis;
    int64_t length;
    int speaker;   /* the first piece of the class, which speaks for it; -1 before it is known */
    int64_t begin; /* of its places among those of all classes */
} axis_class;

/* The distinct sets. */
typedef struct axis_classes {
    int *of;          /* [parameters]: class of each */
    axis_class *list; /* [count] */
    int count;
} axis_classes;

static void axis_classes_fini(axis_classes *c)
{
    memory_free(c->of);
    memory_free(c->list);
}

static bool same_axis(const storage_axis *a, const storage_axis *b)
{
    bool same = a->first == b->first;
    bool more = true;
    for (int l = 0; l < STORAGE_LEVELS && more; l++) {
        same = same && a->level[l].count == b->level[l].count &&
               stride_of(&a->level[l]) == stride_of(&b->level[l]);
        more = a->level[l].count > 0;
    }
    return same;
}

/* Classes along the tensor's rows, or its columns. */
static grail_status find_classes(int count, const stored_matrix *const parameters[], bool rows,
                                 axis_classes *out)
{
    *out = (axis_classes){0};
    CHECK(memory_new(&out->of, (size_t)count, sizeof out->of[0]));
    CHECK(memory_new(&out->list, (size_t)count, sizeof out->list[0]));
    for (int p = 0; p < count; p++) {
        const stored_matrix *m = parameters[p];
        const bool own_rows = rows != m->map.transposed;
        const storage_axis *axis = own_rows ? &m->map.rows : &m->map.columns;
        const int64_t length = own_rows ? m->shape[0] : row_elements(m->rank, m->shape);
        int c = 0;
        while (c < out->count &&
               (!same_axis(out->list[c].axis, axis) || out->list[c].length != length)) {
            c++;
        }
        if (c == out->count) {
            out->list[out->count++] = (axis_class){.axis = axis, .length = length, .speaker = -1};
        }
        out->of[p] = c;
    }
    return GRAIL_OK;
}

/* Whether every position of an axis belongs to one class. */
static grail_status check_partition(const axis_classes *classes, int64_t extent, const char *what,
                                    const tensor_view *tensor)
{
    grail_status status = GRAIL_OK;
    int *taken = NULL; /* class + 1 */
    int64_t found = 0;
    TRY(memory_new(&taken, (size_t)extent, sizeof taken[0]));
    for (int c = 0; c < classes->count; c++) {
        for (int64_t i = 0; i < classes->list[c].length; i++) {
            const int64_t at = storage_position(classes->list[c].axis, i);
            if (taken[at] != 0) {
                FAIL(GRAIL_ERROR_SHAPE, "%s %lld of tensor '%s' is read %s", what, (long long)at,
                     tensor->name,
                     taken[at] == c + 1 ? "twice by one parameter" : "by two parameters");
            }
            taken[at] = c + 1;
            found++;
        }
    }
    if (found < extent) {
        int64_t at = 0;
        while (taken[at] != 0) {
            at++;
        }
        FAIL(GRAIL_ERROR_SHAPE, "tensor '%s' has %lld %ss, but %s %lld is read by no parameter",
             tensor->name, (long long)extent, what, what, (long long)at);
    }
out:
    memory_free(taken);
    return status;
}

/* Each pair of a row class and a column class belongs to one parameter. */
static grail_status check_grid(int count, const axis_classes *rows, const axis_classes *columns,
                               const tensor_view *tensor)
{
    grail_status status = GRAIL_OK;
    int *readers = NULL;
    const int cells = rows->count * columns->count;
    TRY(memory_new(&readers, (size_t)cells, sizeof readers[0]));
    for (int p = 0; p < count; p++) {
        readers[rows->of[p] * columns->count + columns->of[p]]++;
    }
    for (int i = 0; i < cells; i++) {
        if (readers[i] != 1) {
            FAIL(GRAIL_ERROR_SHAPE, "a part of tensor '%s' is read by %d parameters, expected 1",
                 tensor->name, readers[i]);
        }
    }
out:
    memory_free(readers);
    return status;
}

grail_status storage_check_cover(int count, const stored_matrix *const parameters[],
                                 const tensor_view *tensor)
{
    grail_status status = GRAIL_OK;
    axis_classes rows = {0};
    axis_classes columns = {0};
    const tensor_matrix t = matrix_of(parameters[0], tensor);
    TRY(find_classes(count, parameters, true, &rows));
    TRY(find_classes(count, parameters, false, &columns));
    TRY(check_partition(&rows, t.rows, "row", tensor));
    TRY(check_partition(&columns, t.columns, "column", tensor));
    TRY(check_grid(count, &rows, &columns, tensor));
out:
    axis_classes_fini(&rows);
    axis_classes_fini(&columns);
    return status;
}

/* -- the narrowed tensor ----------------------------------------------------------------------- */

/* An element of what is left of a class. */
typedef struct left_over {
    int64_t at;    /* the dense position of the tensor that it stands for */
    int64_t place; /* among the elements of all classes */
} left_over;

static int by_position(const void *left, const void *right)
{
    const left_over *a = left;
    const left_over *b = right;
    return a->at != b->at ? (a->at > b->at) - (a->at < b->at)
                          : (a->place > b->place) - (a->place < b->place);
}

static const int64_t *origin_of(const storage_piece *p, bool rows, int64_t *count)
{
    const bool own_rows = rows != p->dense.map.transposed;
    *count = own_rows ? p->rows : p->columns;
    return own_rows ? p->row_origin : p->column_origin;
}

/* A piece that is gone leaves nothing, on neither axis. */
static bool is_gone(const storage_piece *p)
{
    return p->rows == 0;
}

/* The first piece of every class that is left speaks for it; the others must have as much left. */
static grail_status count_left(int count, const storage_piece pieces[], bool rows,
                               const axis_classes *classes, int64_t *total)
{
    *total = 0;
    for (int p = 0; p < count; p++) {
        int64_t left = 0;
        int64_t expected = 0;
        if (is_gone(&pieces[p])) {
            continue;
        }
        axis_class *own = &classes->list[classes->of[p]];
        (void)origin_of(&pieces[p], rows, &left);
        if (own->speaker < 0) {
            own->speaker = p;
            own->begin = *total;
            *total += left;
        }
        (void)origin_of(&pieces[own->speaker], rows, &expected);
        if (left != expected) {
            return error_set(GRAIL_ERROR_INTERNAL,
                             "parameters side by side are cut to %lld and %lld",
                             (long long)expected, (long long)left);
        }
    }
    return GRAIL_OK;
}

static void list_left(const storage_piece pieces[], bool rows, const axis_class *class,
                      left_over *list)
{
    int64_t count = 0;
    const int64_t *origin = origin_of(&pieces[class->speaker], rows, &count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t dense = origin == NULL ? i : origin[i];
        list[class->begin + i] =
            (left_over){.at = storage_position(class->axis, dense), .place = class->begin + i};
    }
}

/* at[count]: for each piece where what is left of it lies on an axis of the narrowed tensor, in
 * *places, which is owned. */
static grail_status place_axis(int count, const storage_piece pieces[],
                               const stored_matrix *const parameters[], bool rows,
                               const int64_t *at[], int64_t **places, int64_t *total)
{
    grail_status status = GRAIL_OK;
    axis_classes classes = {0};
    left_over *list = NULL;
    TRY(find_classes(count, parameters, rows, &classes));
    TRY(count_left(count, pieces, rows, &classes, total));
    TRY(memory_new(&list, (size_t)*total, sizeof list[0]));
    TRY(memory_new(places, (size_t)*total, sizeof(*places)[0]));
    for (int c = 0; c < classes.count; c++) {
        if (classes.list[c].speaker >= 0) {
            list_left(pieces, rows, &classes.list[c], list);
        }
    }
    qsort(list, (size_t)*total, sizeof list[0], by_position);
    for (int64_t i = 0; i < *total; i++) {
        (*places)[list[i].place] = i;
    }
    for (int p = 0; p < count; p++) {
        at[p] = *places + classes.list[classes.of[p]].begin;
    }
out:
    memory_free(list);
    axis_classes_fini(&classes);
    return status;
}

grail_status storage_lay_out(int count, const storage_piece pieces[], storage_layout *out)
{
    grail_status status = GRAIL_OK;
    const stored_matrix **parameters = NULL;
    storage_layout l = {.count = count, .pieces = pieces};
    TRY(memory_new(&parameters, (size_t)count, sizeof parameters[0]));
    TRY(memory_new(&l.row_at, (size_t)count, sizeof(l.row_at[0])));
    TRY(memory_new(&l.column_at, (size_t)count, sizeof(l.column_at[0])));
    for (int p = 0; p < count; p++) {
        parameters[p] = &pieces[p].dense;
    }
    TRY(place_axis(count, pieces, parameters, true, l.row_at, &l.places[0], &l.rows));
    TRY(place_axis(count, pieces, parameters, false, l.column_at, &l.places[1], &l.columns));
    *out = l;
    l = (storage_layout){0};
out:
    memory_free(parameters);
    storage_layout_fini(&l);
    return status;
}

void storage_layout_fini(storage_layout *l)
{
    memory_free(l->row_at);
    memory_free(l->column_at);
    memory_free(l->places[0]);
    memory_free(l->places[1]);
    *l = (storage_layout){0};
}

/* How many stacked matrices are left of `leading`, each of as many pieces. */
static int64_t stacked_left(const storage_layout *layout, int64_t leading)
{
    int left = 0;
    for (int p = 0; p < layout->count; p++) {
        left += is_gone(&layout->pieces[p]) ? 0 : 1;
    }
    return leading * left / layout->count;
}

grail_status storage_narrow_shape(const storage_layout *layout, const tensor_view *tensor,
                                  int64_t shape[])
{
    const stored_matrix *p = &layout->pieces[0].dense;
    const int split = split_of(p, tensor);
    const int64_t taps = product(tensor->shape, split + 1, tensor->rank);
    int64_t leading = product(tensor->shape, 0, split - 1);
    memcpy(shape, tensor->shape, (size_t)tensor->rank * sizeof shape[0]);
    for (int d = 0; p->rank == 1 && layout->count == 1 && d < tensor->rank; d++) {
        if (shape[d] == p->shape[0] && product(shape, 0, tensor->rank) == p->shape[0]) {
            shape[d] = layout->rows; /* the one dimension of a vector that is not 1 */
            return GRAIL_OK;
        }
    }
    if (split == 2) {
        leading = stacked_left(layout, leading);
        shape[0] = leading;
    }
    if (leading == 0 || taps == 0 || layout->rows % leading != 0 || layout->columns % taps != 0) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "tensor '%s' has %lld matrices in it, which %lld rows do not fill evenly",
                         tensor->name, (long long)leading, (long long)layout->rows);
    }
    shape[split - 1] = layout->rows / leading;
    if (split < tensor->rank) {
        shape[split] = layout->columns / taps;
    }
    return GRAIL_OK;
}

/* Element [r, c] of the piece, in the order of the tensor's axes, within values[rows, columns]. */
static int64_t place_in_piece(const storage_piece *p, int64_t r, int64_t c)
{
    return p->dense.map.transposed ? c * p->columns + r : r * p->columns + c;
}

/* The dense tensor's row (or column) that row (or column) i of what is left stands for. */
static int64_t dense_position(const storage_piece *p, bool rows, int64_t i)
{
    int64_t left = 0;
    const int64_t *origin = origin_of(p, rows, &left);
    const bool own_rows = rows != p->dense.map.transposed;
    return storage_position(own_rows ? &p->dense.map.rows : &p->dense.map.columns,
                            origin == NULL ? i : origin[i]);
}

grail_status storage_put(const storage_layout *l, int i, const tensor_view *tensor,
                         const float *values, float *out)
{
    grail_status status = GRAIL_OK;
    const storage_piece *p = &l->pieces[i];
    const storage_map *map = &p->dense.map;
    const bool affine = storage_is_affine(map);
    const int64_t width = matrix_of(&p->dense, tensor).columns;
    float *dense = NULL; /* a row of the dense tensor */
    TRY(memory_new_unset(&dense, affine ? (size_t)width : 1, sizeof dense[0]));
    for (int64_t r = 0; r < (map->transposed ? p->columns : p->rows); r++) {
        float *row = out + l->row_at[i][r] * l->columns;
        if (affine) {
            TRY(read_row(tensor, dense_position(p, true, r), width, dense));
        }
        for (int64_t c = 0; c < (map->transposed ? p->rows : p->columns); c++) {
            const float value = values[place_in_piece(p, r, c)];
            row[l->column_at[i][c]] =
                affine ? number_before(map, value, dense[dense_position(p, false, c)]) : value;
        }
    }
out:
    memory_free(dense);
    return status;
}

void storage_get(const storage_layout *l, int i, const float *in, float *values)
{
    const storage_piece *p = &l->pieces[i];
    const bool turned = p->dense.map.transposed;
    for (int64_t r = 0; r < (turned ? p->columns : p->rows); r++) {
        const float *row = in + l->row_at[i][r] * l->columns;
        for (int64_t c = 0; c < (turned ? p->rows : p->columns); c++) {
            values[place_in_piece(p, r, c)] = row[l->column_at[i][c]];
        }
    }
    make_values(&p->dense.map, p->rows * p->columns, values);
}

/* Nodes that give images another size. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_nodes.h"
#include "arch/onnx_numbers.h"

/* A word of an attribute, the first of which is the usual one. */
typedef struct word {
    const char *text;
    int value;
} word;

static grail_status word_of(const onnx_reading *r, const char *name, int count, const word words[],
                            int *out)
{
    *out = words[0].value;
    bool is_known = onnx_node_attribute(r->node, name) == NULL;
    for (int i = 0; i < count && !is_known; i++) {
        is_known = onnx_text_is(r, name, words[i].text);
        *out = words[i].value;
    }
    return is_known ? GRAIL_OK : onnx_misfit("its '%s' is one that grail has no row for", name);
}

/* scales[4] <- input i, [1, 1, height, width]; *found false: it is left out, or empty. */
static grail_status scales_of(const onnx_reading *r, int i, bool *found, double scales[IMAGE_RANK])
{
    static const double most = 1 << 10;
    onnx_numbers list = {0};
    *found = onnx_has_input(r, i);
    CHECK(*found ? onnx_numbers_of(r, i, &list) : GRAIL_OK);
    bool fits = !*found || (list.is_known && (list.count == 0 || list.count == IMAGE_RANK));
    *found = *found && list.count > 0;
    for (int k = 0; fits && k < list.count; k++) {
        const onnx_number *n = &list.items[k];
        scales[k] = n->real;
        fits =
            n->is_real && !n->is_open && (k < 2 ? n->real == 1.0 : n->real > 0.0 && n->real < most);
    }
    memory_free(list.items);
    return fits ? GRAIL_OK
                : onnx_misfit("its scales are not known, not of [N, C, H, W], or of channels or "
                              "samples, or a number that is not between 0 and 1024");
}

/* Another size, by scales or of the sizes that input `sizes` states, of which one counts channels.
 */
static grail_status add_resize(onnx_reading *r, resize_attributes how, int scales, int sizes)
{
    onnx_known *x = NULL;
    bool is_scaled = false;
    double scale[IMAGE_RANK] = {0.0};
    int64_t size[ONNX_MOST_AXES];
    int count = 0;
    CHECK(onnx_value_input(r, 0, &x));
    CHECK(onnx_needs_rank(x, IMAGE_RANK));
    CHECK(scales_of(r, scales, &is_scaled, scale));
    CHECK(is_scaled || sizes == 0 ? GRAIL_OK : onnx_list_of(r, "sizes", sizes, &count, size));
    const int64_t most = 1 << 16;
    if (!is_scaled && (count != IMAGE_RANK || size[1] != x->width || size[2] < 1 ||
                       size[2] > most || size[3] < 1 || size[3] > most)) {
        return onnx_misfit("states neither scales nor sizes of as many channels");
    }
    node n = onnx_plain(NODE_RESIZE, x, NULL);
    how.scale_height = scale[2];
    how.scale_width = scale[3];
    how.size = is_scaled ? (extent){0, 0} : (extent){size[2], size[3]};
    n.resize = how;
    onnx_known y = *x;
    y.one = false;
    CHECK(onnx_give_node(r, &n, y));
    return is_scaled ? GRAIL_OK : onnx_note_count(r, "sizes", sizes, 1, x->value);
}

/* Before operator set 11 as Upsample was. */
grail_status onnx_read_resize(onnx_reading *r)
{
    static const word modes[] = {{"nearest", RESIZE_FLOOR}, {"linear", RESIZE_LINEAR}};
    static const word places[] = {{"half_pixel", RESIZE_HALF_PIXEL},
                                  {"pytorch_half_pixel", RESIZE_HALF_PIXEL_OR_0},
                                  {"asymmetric", RESIZE_ASYMMETRIC},
                                  {"align_corners", RESIZE_ALIGN_CORNERS}};
    static const word roundings[] = {{"round_prefer_floor", RESIZE_NEAREST_LOWER},
                                     {"round_prefer_ceil", RESIZE_NEAREST_UPPER},
                                     {"floor", RESIZE_FLOOR},
                                     {"ceil", RESIZE_CEIL}};
    static const word stretch[] = {{"stretch", 0}};
    int values = 0;
    int coordinates = 0;
    int rounding = 0;
    CHECK(word_of(r, "mode", 2, modes, &values));
    CHECK(word_of(r, "coordinate_transformation_mode", 4, places, &coordinates));
    CHECK(word_of(r, "nearest_mode", 4, roundings, &rounding));
    CHECK(word_of(r, "keep_aspect_ratio_policy", 1, stretch, &(int){0}));
    if (onnx_integer_of(r, "antialias", 0) != 0 || onnx_node_attribute(r->node, "axes") != NULL) {
        return onnx_misfit("smooths what it makes smaller (antialias), or names axes");
    }
    if (r->file->opset < 11) {
        const resize_attributes older = {.values = (resize_values)values,
                                         .coordinates = RESIZE_ASYMMETRIC};
        return add_resize(r, older, 1, 0);
    }
    const resize_attributes how = {.values =
                                       (resize_values)(values == RESIZE_LINEAR ? values : rounding),
                                   .coordinates = (resize_coordinates)coordinates};
    return add_resize(r, how, 2, 3);
}

grail_status onnx_read_upsample(onnx_reading *r)
{
    static const word modes[] = {{"nearest", RESIZE_FLOOR}, {"linear", RESIZE_LINEAR}};
    int values = 0;
    CHECK(word_of(r, "mode", 2, modes, &values));
    return add_resize(
        r, (resize_attributes){.values = (resize_values)values, .coordinates = RESIZE_ASYMMETRIC},
        1, 0);
}

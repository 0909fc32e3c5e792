#include "format/weights/written_parts.h"

#include "tensor/groups.h"

void written_parts_fini(written_parts *w)
{
    for (int i = 0; i < PACKED_PARTS; i++) {
        memory_free(w->names[i]);
    }
    *w = (written_parts){0};
}

grail_status written_parts_find(const checkpoint *like, int64_t i, const tensor_view *shape,
                                written_parts *out)
{
    *out = (written_parts){.count = 1, .of = {*shape}};
    if (group_bits(shape->dtype) == 0) {
        return GRAIL_OK;
    }
    out->count = PACKED_PARTS;
    packed_groups_parts(shape, checkpoint_at(like, i)->dtype, out->of);
    for (int k = 0; k < PACKED_PARTS; k++) {
        CHECK(memory_format(&out->names[k], "%s%s", shape->name, packed_groups_suffixes[k]));
        out->of[k].name = out->names[k];
    }
    return GRAIL_OK;
}

grail_status written_parts_new(const written_parts *parts, void *data[PACKED_PARTS])
{
    for (int k = 0; k < parts->count; k++) {
        CHECK(memory_new_unset(&data[k], parts->of[k].bytes, 1));
    }
    return GRAIL_OK;
}

void written_parts_free(void *data[PACKED_PARTS])
{
    for (int k = 0; k < PACKED_PARTS; k++) {
        memory_free(data[k]);
    }
}

grail_status written_parts_split(written_parts *parts, const tensor_view *shape, const void *blocks,
                                 void *data[PACKED_PARTS])
{
    CHECK(written_parts_new(parts, data));
    return error_in(packed_groups_split(shape, blocks, parts->of, data), "scales of '%s'",
                    shape->name);
}

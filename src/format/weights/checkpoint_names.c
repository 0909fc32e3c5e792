/* The names of a checkpoint's tensors: as they are stored, without those of wrappers, and as the
 * network in it calls them. */
#include "format/weights/checkpoint_internal.h"

#include "base/name_list.h"

#include <stdio.h>
#include <string.h>

/* -- names without those of wrappers ----------------------------------------------------------- */

/* A name from the first component on that no wrapper added. Sources: DataParallel,
 * DistributedDataParallel and AveragedModel, torch.compile, FSDP and checkpoint_wrapper of torch;
 * Lightning Fabric; Opacus. */
static const char *skip_wrappers(const char *name)
{
    static const char *const wrappers[] = {
        "module.",          "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
        "_forward_module.", "_module."};
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0];) {
        const bool is_there = name_begins_with(name, wrappers[i]);
        name += is_there ? strlen(wrappers[i]) : 0;
        i = is_there ? 0 : i + 1;
    }
    return name;
}

/* Length of the first component of a name and its dot. */
static size_t component(const char *name)
{
    const size_t dot = strcspn(name, ".");
    return dot + (name[dot] == '.' ? 1 : 0);
}

void checkpoint_free_names(checkpoint *c)
{
    name_index_fini(&c->stored);
    name_index_fini(&c->plain);
    for (int64_t i = 0; c->stripped != NULL && i < c->stripped_count; i++) {
        memory_free(c->stripped[i]);
    }
    memory_free(c->stripped);
    memory_free(c->base);
    memory_free(c->prefix);
    c->stripped = NULL;
    c->base = NULL;
    c->prefix = NULL;
}

grail_status checkpoint_index_tensors(checkpoint *c)
{
    grail_status status = GRAIL_OK;
    const char **names = NULL;
    checkpoint_free_names(c);
    TRY(memory_new(&names, (size_t)c->count, sizeof *names));
    TRY(memory_new(&c->stripped, (size_t)c->count, sizeof c->stripped[0]));
    c->stripped_count = c->count;
    for (int64_t i = 0; i < c->count; i++) {
        names[i] = c->tensors[i]->name;
    }
    TRY(name_index_init(&c->stored, c->count, names, sizeof names[0]));
    for (int64_t i = 0; i < c->count; i++) {
        char *plain = NULL; /* stays NULL in the table where the name has no wrapper */
        TRY(memory_copy_string(&plain, names[i]));
        char *end = plain;
        for (const char *left = skip_wrappers(names[i]); left[0] != 0;) {
            const size_t length = component(left);
            memcpy(end, left, length);
            end += length;
            left = skip_wrappers(left + length);
        }
        *end = 0;
        if (strcmp(plain, names[i]) == 0) {
            memory_free(plain);
            plain = NULL;
        }
        c->stripped[i] = plain;
        names[i] = checkpoint_plain_name(c, i);
    }
    TRY(name_index_init(&c->plain, c->count, names, sizeof names[0]));
out:
    memory_free(names);
    return status;
}

int64_t checkpoint_index_of(const checkpoint *c, const char *name)
{
    const int64_t stored = name_index_find(&c->stored, name);
    return stored >= 0 ? stored : name_index_find_single(&c->plain, name);
}

const char *checkpoint_plain_name(const checkpoint *c, int64_t i)
{
    return i < 0 || i >= c->count   ? NULL
           : c->stripped[i] == NULL ? c->tensors[i]->name
                                    : c->stripped[i];
}

/* -- names in the network ---------------------------------------------------------------------- */

grail_status checkpoint_set_prefix(checkpoint *c, const char *base, const char *prefix)
{
    memory_free(c->base);
    memory_free(c->prefix);
    c->base = NULL;
    c->prefix = NULL;
    CHECK(memory_copy_string(&c->base, base));
    return memory_copy_string(&c->prefix, prefix);
}

const char *checkpoint_prefix(const checkpoint *c)
{
    return c->prefix == NULL ? "" : c->prefix;
}

/* Whether a plain name begins with `begin` and more follows. */
static bool is_any_behind(const checkpoint *c, const char *begin)
{
    int64_t low = 0;
    int64_t high = c->plain.count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (strcmp(c->plain.entries[middle].name, begin) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < c->plain.count && name_begins_with(c->plain.entries[low].name, begin);
}

enum { NAME_SIZE = 2 * TENSOR_LONGEST_NAME };

/* The length of a prefix without its last component. */
static size_t shorter(const char *prefix, size_t length)
{
    for (length -= length > 0; length > 0 && prefix[length - 1] != '.';) {
        length--;
    }
    return length;
}

/* Looks for `name` behind the first components of the prefix, the longest first, where nothing with
 * its own first component lies behind more of them. */
static int64_t find_outside(const checkpoint *c, const char *name)
{
    const char *prefix = checkpoint_prefix(c);
    char text[NAME_SIZE];
    for (size_t length = strlen(prefix);; length = shorter(prefix, length)) {
        snprintf(text, sizeof text, "%.*s%s", (int)length, prefix, name);
        const int64_t found = checkpoint_index_of(c, text);
        if (found >= 0 || length == 0) {
            return found;
        }
        text[length + component(name)] = 0;
        if (is_any_behind(c, text)) {
            return -1;
        }
    }
}

int64_t checkpoint_place_of(const checkpoint *c, const char *name)
{
    const char *base = c->base == NULL ? "" : c->base;
    const char *prefix = checkpoint_prefix(c);
    char text[NAME_SIZE];
    if (strlen(prefix) + strlen(name) >= sizeof text) {
        return -1;
    }
    if (base[0] != 0 && name_begins_with(name, base)) {
        snprintf(text, sizeof text, "%s%s", prefix, name + strlen(base));
        return checkpoint_index_of(c, text);
    }
    const int64_t found = find_outside(c, name);
    const bool has_prefix = prefix[0] != 0 && name_begins_with(name, prefix);
    return found < 0 && has_prefix ? checkpoint_index_of(c, name) : found;
}

const tensor_view *checkpoint_find(const checkpoint *c, const char *name)
{
    const int64_t i = checkpoint_place_of(c, name);
    return i < 0 ? NULL : c->tensors[i];
}

/* How much of the prefix the plain name of tensor i begins with, in complete components. */
static size_t length_inside(const checkpoint *c, int64_t i)
{
    const char *prefix = checkpoint_prefix(c);
    size_t length = strlen(prefix);
    while (length > 0 && strncmp(checkpoint_plain_name(c, i), prefix, length) != 0) {
        length = shorter(prefix, length);
    }
    return length;
}

const char *checkpoint_own_name(const checkpoint *c, int64_t i)
{
    const char *plain = checkpoint_plain_name(c, i);
    return plain == NULL ? NULL : plain + length_inside(c, i);
}

bool checkpoint_is_inside(const checkpoint *c, int64_t i)
{
    return length_inside(c, i) == strlen(checkpoint_prefix(c));
}

size_t checkpoint_own_begin(const checkpoint *c, int64_t i)
{
    const char *left = skip_wrappers(c->tensors[i]->name);
    for (size_t inside = length_inside(c, i); inside > 0;) {
        const size_t length = component(left);
        inside -= length < inside ? length : inside;
        left = skip_wrappers(left + length);
    }
    return (size_t)(left - c->tensors[i]->name);
}

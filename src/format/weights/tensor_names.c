#include "format/weights/tensor_names.h"

#include "format/tensor_limits.h"

#include <stdio.h>
#include <string.h>

/* -- plain names ------------------------------------------------------------------------------- */

/* What comes behind the component of a wrapper at the begin of a name; NULL where there is none.
 * Sources: DataParallel, DistributedDataParallel and AveragedModel, torch.compile, FSDP and
 * checkpoint_wrapper of torch; Lightning Fabric; Opacus. */
static const char *behind_wrapper(const char *name)
{
    static const char *const wrappers[] = {
        "module.",          "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
        "_forward_module.", "_module."};
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
        const size_t length = strlen(wrappers[i]);
        if (strncmp(name, wrappers[i], length) == 0) {
            return name + length;
        }
    }
    return NULL;
}

/* A name from the first component on that no wrapper added. */
static const char *skip_wrappers(const char *name)
{
    for (const char *behind = name; behind != NULL; behind = behind_wrapper(name)) {
        name = behind;
    }
    return name;
}

/* Length of the first component of a name and its dot. */
static size_t component(const char *name)
{
    const size_t dot = strcspn(name, ".");
    return dot + (name[dot] == '.' ? 1 : 0);
}

/* *out <- the name without wrappers; NULL where it has none. */
static grail_status strip_wrappers(const char *name, char **out)
{
    char *plain = NULL;
    CHECK(memory_copy_string(&plain, name));
    char *end = plain;
    for (const char *left = skip_wrappers(name); left[0] != 0;) {
        const size_t length = component(left);
        memcpy(end, left, length);
        end += length;
        left = skip_wrappers(left + length);
    }
    *end = 0;
    if (strcmp(plain, name) == 0) {
        memory_free(plain);
        plain = NULL;
    }
    *out = plain;
    return GRAIL_OK;
}

grail_status tensor_names_init(int64_t count, const char **names, tensor_names *out)
{
    grail_status status = GRAIL_OK;
    tensor_names n = {.of = names, .count = count};
    const char **plain = NULL;
    TRY(memory_new(&plain, (size_t)count, sizeof *plain));
    TRY(memory_new(&n.stripped, (size_t)count, sizeof n.stripped[0]));
    for (int64_t i = 0; i < count; i++) {
        TRY(strip_wrappers(names[i], &n.stripped[i]));
        plain[i] = tensor_names_plain(&n, i);
    }
    TRY(name_index_init(&n.stored, count, names, sizeof names[0]));
    TRY(name_index_init(&n.plain, count, plain, sizeof plain[0]));
    *out = n;
    n = (tensor_names){0};
out:
    memory_free(plain);
    tensor_names_fini(&n);
    return status;
}

void tensor_names_fini(tensor_names *n)
{
    name_index_fini(&n->stored);
    name_index_fini(&n->plain);
    for (int64_t i = 0; n->stripped != NULL && i < n->count; i++) {
        memory_free(n->stripped[i]);
    }
    memory_free(n->stripped);
    memory_free(n->of);
    memory_free(n->base);
    memory_free(n->prefix);
    *n = (tensor_names){0};
}

int64_t tensor_names_index(const tensor_names *n, const char *name)
{
    const int64_t stored = name_index_find(&n->stored, name);
    return stored >= 0 ? stored : name_index_find_single(&n->plain, name);
}

const char *tensor_names_plain(const tensor_names *n, int64_t i)
{
    return n->stripped[i] == NULL ? n->of[i] : n->stripped[i];
}

/* -- names in the network ---------------------------------------------------------------------- */

grail_status tensor_names_set_prefix(tensor_names *n, const char *base, const char *prefix)
{
    memory_free(n->base);
    memory_free(n->prefix);
    n->base = NULL;
    n->prefix = NULL;
    CHECK(memory_copy_string(&n->base, base));
    return memory_copy_string(&n->prefix, prefix);
}

static const char *text_of(const char *text)
{
    return text == NULL ? "" : text;
}

static bool begins_with(const char *name, const char *begin, size_t length)
{
    return strncmp(name, begin, length) == 0;
}

/* Whether a plain name begins with `begin` and more follows. */
static bool is_any_behind(const tensor_names *n, const char *begin)
{
    const size_t length = strlen(begin);
    int64_t low = 0;
    int64_t high = n->plain.count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (strcmp(n->plain.entries[middle].name, begin) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < n->plain.count && begins_with(n->plain.entries[low].name, begin, length);
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
static int64_t find_outside(const tensor_names *n, const char *name)
{
    const char *prefix = text_of(n->prefix);
    char text[NAME_SIZE];
    for (size_t length = strlen(prefix);; length = shorter(prefix, length)) {
        snprintf(text, sizeof text, "%.*s%s", (int)length, prefix, name);
        const int64_t found = tensor_names_index(n, text);
        if (found >= 0 || length == 0) {
            return found;
        }
        text[length + component(name)] = 0;
        if (is_any_behind(n, text)) {
            return -1;
        }
    }
}

int64_t tensor_names_place(const tensor_names *n, const char *name)
{
    const char *base = text_of(n->base);
    const char *prefix = text_of(n->prefix);
    char text[NAME_SIZE];
    if (strlen(prefix) + strlen(name) >= sizeof text) {
        return -1;
    }
    if (base[0] != 0 && begins_with(name, base, strlen(base))) {
        snprintf(text, sizeof text, "%s%s", prefix, name + strlen(base));
        return tensor_names_index(n, text);
    }
    const int64_t found = find_outside(n, name);
    const bool has_prefix = prefix[0] != 0 && begins_with(name, prefix, strlen(prefix));
    return found < 0 && has_prefix ? tensor_names_index(n, name) : found;
}

/* How much of the prefix the plain name of tensor i begins with, in complete components. */
static size_t length_inside(const tensor_names *n, int64_t i)
{
    const char *prefix = text_of(n->prefix);
    size_t length = strlen(prefix);
    while (length > 0 && !begins_with(tensor_names_plain(n, i), prefix, length)) {
        length = shorter(prefix, length);
    }
    return length;
}

const char *tensor_names_own(const tensor_names *n, int64_t i)
{
    return tensor_names_plain(n, i) + length_inside(n, i);
}

bool tensor_names_is_inside(const tensor_names *n, int64_t i)
{
    return length_inside(n, i) == strlen(text_of(n->prefix));
}

size_t tensor_names_own_begin(const tensor_names *n, int64_t i)
{
    const char *left = skip_wrappers(n->of[i]);
    for (size_t inside = length_inside(n, i); inside > 0;) {
        const size_t length = component(left);
        inside -= length < inside ? length : inside;
        left = skip_wrappers(left + length);
    }
    return (size_t)(left - n->of[i]);
}
